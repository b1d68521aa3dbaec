"""The parts of the GPU benchmarks that need no GPU: what is compared with what, and how."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ACCURACY = ("card", "gpu_busy", "gpu_counters", "gpu_injected", "gpu_loops", "watched")


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Scripts are no package: they find each other in their folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "accuracy"))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in ACCURACY})
    for name in ACCURACY:
        sys.modules.pop(name, None)


def test_work_on_several_streams_counts_once(accuracy: Any) -> None:
    streams = [(5.0, 6.0), (1.0, 2.0), (1.5, 3.0), (3.0, 4.0)]
    assert accuracy.gpu_loops.union(streams) == [(1.0, 4.0), (5.0, 6.0)]
    busy = accuracy.gpu_busy.Busy([(1.0, 4.0), (5.0, 6.0)])
    assert [busy.before_s(moment) for moment in (0.5, 1.0, 2.5, 4.5, 5.5, 9.0)] == [0, 0, 1.5, 3, 3.5, 4]
    assert busy.between_s(2.0, 5.25) == pytest.approx(2.25)


def test_only_readings_within_a_window_are_compared(accuracy: Any) -> None:
    def reading(begin: float, end: float, busy_pct: float) -> Any:
        return accuracy.gpu_counters.Reading("gpm", begin, end, busy_pct)

    window = {"begin_s": 1.0, "end_s": 2.0, "busy": [[1.0, 1.5]], "kernels_busy": [[1.0, 1.25]]}
    readings = [reading(0.9, 1.1, 0), reading(1.1, 1.4, 100), reading(1.4, 1.9, 10), reading(1.9, 2.1, 0)]
    found = accuracy.gpu_busy.compared(readings, [window])
    assert (found["readings"], found["seconds"]) == (2, 0.8)
    assert found["counter_pct"] == pytest.approx(100 * (0.3 + 0.05) / 0.8)
    assert found["truth_pct"] == pytest.approx(100 * (0.3 + 0.1) / 0.8)
    assert found["truth_kernels_pct"] == pytest.approx(100 * 0.15 / 0.8, abs=1e-3)
    assert found["off"] == pytest.approx(100 * -0.05 / 0.8)
    assert accuracy.gpu_busy.compared(readings[:1], [window])["off"] is None


@pytest.mark.parametrize("shift_s", [0.0, 1_700_000_000.0], ids=["wall clock", "other clock"])
def test_samples_of_the_driver_speak_of_the_time_before_them(accuracy: Any, shift_s: float) -> None:
    counters = object.__new__(accuracy.gpu_counters.Counters)
    counters.seen_us = 0
    rows = [(1_000_000, 50.0), (1_200_000, 60.0), (1_400_000, 70.0)]
    first = counters.new_samples(rows[:2], shift_s + 1.2)
    second = counters.new_samples(rows, shift_s + 1.4)
    assert [(r.busy_pct, r.source) for r in (*first, *second)] == [(60.0, "nvml"), (70.0, "nvml")]
    edges = [edge for r in (*first, *second) for edge in (r.begin_s, r.end_s)]
    assert edges == pytest.approx([shift_s + s for s in (1.0, 1.2, 1.2, 1.4)])
    assert counters.new_samples(rows, shift_s + 1.5) == []


def run_of(phase_pct: float, function: str, idle: dict[str, float] | None) -> dict[str, Any]:
    line = {"phase": "env", "pct": phase_pct, "place": {"leaf": ["a/gpu_job.py", 40, function]}}
    window = {"ticks": 2, "seconds": 2.0, "remark": None}
    trainer = {"window": window, "phase_pct": {"env": phase_pct}, "lines": [line]}
    return {"trainers": [trainer], "gpu": {"idle_by_phase_pct": idle} if idle else None}


@pytest.mark.parametrize(
    ("phase_pct", "function", "idle", "right"),
    [
        (31.0, "pause", None, True),
        (34.0, "pause", None, False),
        (31.0, "step", None, False),
        (31.0, "pause", {"env": 28.0}, True),
        (31.0, "pause", {"env": 20.0}, False),
    ],
    ids=["right", "too much", "wrong line", "idle right", "idle wrong"],
)
def test_a_stall_is_judged_over_the_ticks_of_the_window(
    accuracy: Any, phase_pct: float, function: str, idle: dict[str, float] | None, right: bool
) -> None:
    ticks = [(0.0, 0.0), (9.0, 0.0), (10.0, 0.3), (11.0, 0.6)]  # the first is not in the window
    truth = {"gpu_work_s": [0.6, 0.64], "ticks": ticks, "batch_rows": 8, "copied_bytes": None}
    found = accuracy.gpu_injected.compared("env", run_of(phase_pct, function, idle), truth)
    assert found["truth_pct"] == pytest.approx(30.0)
    assert found["idle_total_truth_pct"] == pytest.approx(38.0)
    assert accuracy.gpu_injected.judged({"where": "env", **found})["right"] is right


def test_the_interval_is_wider_with_few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS / "overhead"))
    cost = importlib.import_module("inside_cost")
    assert [cost.t_975(n) for n in (10, 19, 199)] == pytest.approx([2.228, 2.093, 1.972], abs=0.01)
    few, many = cost.estimate([0.01, 0.03] * 6), cost.estimate([0.01, 0.03] * 100)
    assert few["cost_pct"] == pytest.approx(many["cost_pct"]) == pytest.approx(2.02, abs=0.001)
    assert few["low_pct"] < many["low_pct"] < 2.02 < many["high_pct"] < few["high_pct"]
