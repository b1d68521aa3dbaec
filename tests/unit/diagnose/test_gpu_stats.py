"""Statistics of samples; active and idle seconds partition the time."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnose.gpu_stats import stats_of, window_of
from stoker.model.evidence import GpuTrace


def trace(utils, times=None, **more):
    return GpuTrace("0", array("f", utils), None if times is None else array("d", times), **more)


def test_mean_median_peak():
    stats = stats_of(trace([0, 10, 20, 100], poll_s=1.0))
    assert (stats.n, stats.mean_pct, stats.p50_pct, stats.peak_pct) == (4, 32.5, 15, 100)
    assert (stats.active_s, stats.idle_s, stats.not_covered_s) == (3, 1, None)


def test_a_sample_without_a_figure_is_neither_active_nor_idle():
    stats = stats_of(trace([50, math.nan, 0], poll_s=2.0))
    assert (stats.n, stats.mean_pct) == (2, 25)
    assert (stats.active_s, stats.idle_s, stats.unknown_s) == (2, 2, 2)


def test_a_pause_in_the_log_is_not_covered():
    stats = stats_of(trace([50, 50, 0, 0], [0, 1, 2, 100]))
    assert (stats.active_s, stats.idle_s, stats.not_covered_s) == (2, 2, 97)


def test_without_clock_or_poll_no_seconds_are_given():
    stats = stats_of(trace([50, 50]))
    assert (stats.active_s, stats.idle_s, stats.mean_pct) == (None, None, 50)


def test_the_samples_a_bench_drops_are_dropped():
    assert stats_of(trace([0] * 20 + [80], poll_s=1.0, warm_up_samples=20)).mean_pct == 80


@given(
    st.lists(
        st.tuples(st.one_of(st.floats(0, 100, width=32), st.just(math.nan)), st.floats(0.01, 50)),
        min_size=2,
        max_size=60,
    )
)
def test_active_idle_unknown_and_gaps_partition_the_span(samples):
    times, now = [], 0.0
    for _, gap in samples:
        times.append(now)
        now += gap
    stats = stats_of(trace([util for util, _ in samples], times))
    covered = stats.active_s + stats.idle_s + stats.unknown_s
    typical = sorted(later - earlier for earlier, later in pairwise(times))
    last = typical[len(typical) // 2]
    assert covered + stats.not_covered_s == pytest.approx(times[-1] - times[0] + last, rel=1e-6)


def test_a_window_is_all_gpus_poll_by_poll():
    window = window_of([trace([0, 100, 0, 60], poll_s=1.0), trace([0, 50, 8, 40], poll_s=1.0)])
    assert window.gpu_avg_pct == (40, 24.5)
    assert (window.both_avg_pct, window.both_p50_pct) == (32.25, 27)
    assert window.both_avg_active_pct == pytest.approx((75 + 50) / 2)
    assert (window.active_s, window.idle_s) == (2, 2)


def test_gpus_that_were_not_sampled_together_make_no_window():
    assert window_of([trace([1, 2]), trace([1])]) is None
    assert window_of([trace([1, 2])]) is None
