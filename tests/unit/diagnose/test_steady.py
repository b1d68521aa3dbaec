"""Hand-made ticks for each verdict, and what may be relied on whatever the ticks are."""

from __future__ import annotations

import math
import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.diagnose.pace import of_rows, of_ticks
from stoker.diagnose.steady import Steadiness, Verdict, judge
from stoker.diagnose.unsteady import Reason

EXAMPLES = int(os.environ.get("STOKER_FUZZ", "60"))


def noise(count: int, spread: float = 0.03, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [1 + chance.gauss(0, spread) for _ in range(count)]


def judged(units: list[float], tick_s: float = 0.02, periods: tuple[float, ...] = ()) -> Steadiness:
    pace = of_ticks([unit * tick_s for unit in units])
    assert pace is not None
    return judge(pace, periods)


def test_an_even_run_is_steady_with_an_interval_around_its_rate() -> None:
    found = judged(noise(4000))
    assert (found.verdict, found.reason) == (Verdict.STEADY, None)
    assert found.ticks_per_s == pytest.approx(50.0, rel=0.005)
    assert found.low_per_s is not None
    assert found.high_per_s is not None
    assert found.low_per_s < 50.0 < found.high_per_s
    assert found.half_width_frac is not None
    assert 0.0005 < found.half_width_frac < 0.005
    assert found.phrase.startswith("steady, ±0.")
    assert found.last_tick == 4000


def test_the_rate_is_items_over_time_not_a_mean_of_rates() -> None:
    """Ticks of 10 and 30 ms in turn: 50 a second, though the mean of 100 and 33 is 67."""
    found = judged([0.5, 1.5] * 2000)
    assert found.verdict is Verdict.STEADY
    assert found.ticks_per_s == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("count", "tick_s", "verdict"),
    [
        (3100, 0.02, Verdict.STEADY),
        (2900, 0.02, Verdict.SCREENING),
        (700, 0.3, Verdict.STEADY),
        (500, 0.3, Verdict.SCREENING),
        (1050, 0.02, Verdict.SCREENING),
        (950, 0.02, Verdict.UNSTEADY),
        (90, 1.0, Verdict.UNSTEADY),
        (12_000, 0.002, Verdict.SCREENING),
        (18_500, 0.002, Verdict.STEADY),
    ],
)
def test_length(count: int, tick_s: float, verdict: Verdict) -> None:
    """3,000 ticks of 10 ms or more, fast ones counted in groups of as much, or three minutes."""
    found = judged(noise(count, 0.01), tick_s)
    assert found.verdict is verdict
    assert (found.reason is Reason.SHORT) == (verdict is Verdict.UNSTEADY)
    assert bool(found.help) == (verdict is not Verdict.STEADY)


def test_fast_ticks_are_taken_in_groups() -> None:
    assert judged(noise(20_000, 0.01), 0.003).sample_ticks >= 4
    assert judged(noise(4_000, 0.01), 0.02).sample_ticks == 1


def test_a_warm_up_is_left_out() -> None:
    units = [value + 0.6 * math.exp(-i / 100) for i, value in enumerate(noise(5000))]
    found = judged(units)
    assert found.verdict is Verdict.STEADY
    assert 100 < found.warmup_ticks < 900
    assert found.ticks_per_s == pytest.approx(50.0, rel=0.01)


def test_drift_is_refused() -> None:
    found = judged([value * (1 + 0.04 * i / 5000) for i, value in enumerate(noise(5000))])
    assert (found.verdict, found.reason) == (Verdict.UNSTEADY, Reason.DRIFT)
    assert found.low_per_s is None
    assert "slower" in found.seen
    assert "grows" in found.help
    faster = judged([value * (1 - 0.04 * i / 5000) for i, value in enumerate(noise(5000))])
    assert faster.reason is Reason.DRIFT
    assert "faster" in faster.seen


def test_a_step_is_refused_with_its_place() -> None:
    found = judged([value + (0.1 if i >= 4000 else 0) for i, value in enumerate(noise(5000))])
    assert found.reason is Reason.STEP
    assert found.levels[-1].first_tick == pytest.approx(4000, abs=100)
    assert found.levels[-1].ticks_per_s == pytest.approx(50 / 1.1, rel=0.01)
    assert "50 ticks/s at first, 45.5 at the end" in found.seen


def test_a_slow_stretch_in_the_middle_is_no_steady_run() -> None:
    """Both halves are alike and no line rises: only the stretches themselves tell."""
    units = [value + (0.05 if 1500 <= i < 3500 else 0) for i, value in enumerate(noise(5000))]
    assert judged(units).reason is Reason.STEP


def test_two_speeds() -> None:
    units = [value * (1.1 if (i // 700) % 2 else 0.9) for i, value in enumerate(noise(5600))]
    found = judged(units)
    assert found.reason is Reason.TWO_SPEEDS
    assert "45" in found.seen
    assert "55" in found.seen


def test_stalls_by_chance() -> None:
    chance = random.Random(4)
    found = judged([value + (40 if chance.random() < 1 / 400 else 0) for value in noise(5000)])
    assert found.reason is Reason.STALLS
    assert "no fixed distance" in found.seen


def test_one_stall_is_not_a_rate() -> None:
    units = noise(5000)
    units[3000] += 200
    found = judged(units)
    assert found.reason is Reason.SHORT
    assert "1 stall:" in found.seen


def test_stalls_with_a_period_are_part_of_the_speed() -> None:
    units = [value + (20 if i % 250 == 249 else 0) for i, value in enumerate(noise(5000))]
    found = judged(units)
    assert found.verdict is Verdict.STEADY
    assert found.period_ticks == pytest.approx(250, abs=1)
    assert found.batch_ticks % found.period_ticks == pytest.approx(0, abs=1e-6)
    assert found.ticks_per_s == pytest.approx(50 / 1.08, rel=0.005)


def test_a_known_period_helps_where_the_ticks_alone_say_too_little() -> None:
    """A slow half and a fast half of each epoch, and a pause at its end; five epochs in all."""
    units = [
        value + 0.1 * ((i % 700) / 700 - 0.5) + (30 if i % 700 == 699 else 0)
        for i, value in enumerate(noise(3500))
    ]
    known = judged(units, periods=(700.0,))
    assert known.verdict is Verdict.STEADY
    assert known.period_ticks == 700.0
    assert known.ticks_per_s == pytest.approx(50 / (1 + 30 / 700), rel=0.01)


def test_fewer_than_three_cycles_are_too_few() -> None:
    units = [value + (60 if i % 1600 == 1599 else 0) for i, value in enumerate(noise(4000))]
    assert judged(units, periods=(1600.0,)).reason is Reason.SHORT


def test_rows_of_a_second_say_the_same() -> None:
    chance = random.Random(2)
    found_by_rows = of_rows((chance.choice((19, 20, 21)), 1.0) for _ in range(2000))
    assert found_by_rows is not None
    found = judge(found_by_rows)
    assert found.verdict is Verdict.STEADY
    assert found.ticks_per_s == pytest.approx(20.0, rel=0.005)


ODD = st.one_of(st.just(0.0), st.floats(1e-7, 1e-3), st.floats(1e-3, 0.1), st.floats(0.1, 1e5))


@settings(max_examples=EXAMPLES, deadline=None, derandomize="STOKER_FUZZ" not in os.environ,
          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
@given(st.lists(st.tuples(ODD, st.integers(1, 400)), max_size=12), st.lists(st.floats(0, 1e6), max_size=3))
def test_any_ticks_get_a_verdict(runs: list[tuple[float, int]], periods: list[float]) -> None:
    pace = of_ticks([took for took, count in runs for _ in range(count)])
    if pace is None:
        assert not sum(took * count for took, count in runs)
        return
    found = judge(pace, periods)
    assert (found.reason is None) == (found.verdict is not Verdict.UNSTEADY)
    assert 0 <= found.warmup_ticks <= pace.total_ticks / 2
    assert 0 <= found.first_tick < found.last_tick == pace.total_ticks
    if found.verdict is Verdict.STEADY:
        assert found.low_per_s is not None
        assert found.ticks_per_s is not None
        assert found.low_per_s <= found.ticks_per_s


def test_a_clear_warm_up_is_cut_off_a_short_window_as_well() -> None:
    found = judged([*(3 * unit for unit in noise(60)), *noise(500)], tick_s=0.01)
    assert found.reason is Reason.SHORT
    assert 60 <= found.warmup_ticks <= 80
    assert found.ticks_per_s == pytest.approx(100, rel=0.02)
    little = judged([*(1.2 * unit for unit in noise(15)), *noise(600)], tick_s=0.01)
    assert little.warmup_ticks == 0, "nothing that matters"
