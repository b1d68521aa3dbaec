"""The parts of the GPU benchmarks that need no GPU: what is compared with what, and how."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.outside.gpu.fake import FakeGpus, fake_answers
from stoker.outside.gpu.seam import Answers, Refused, UtilSamples

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


def test_one_window_stands_for_a_deep_one_and_the_others_are_judged(accuracy: Any) -> None:
    """Kernels of 100 us, the counter says 101; a thousand in each second."""

    def window(begin: float) -> dict[str, Any]:
        busy = [[begin + n / 1000, begin + n / 1000 + 100e-6] for n in range(1000)]
        return {"begin_s": begin, "end_s": begin + 1, "busy": busy, "kernels_busy": busy, "iterations": 1}

    between = [{"begin_s": at, "end_s": at + 1.0, "iterations": 1} for at in (0.0, 2.0, 4.0)]
    readings = [
        accuracy.gpu_counters.Reading(source, at + 0.01, at + 0.99, 10.1)
        for at in range(5)
        for source in ("gpm", "samples", "nvml")
    ]
    found = accuracy.gpu_busy.with_deep([window(1.0), window(3.0)], between, readings)
    assert set(found) == {"same_window, gpm", "same_window, nvml", "unprofiled, gpm", "unprofiled, nvml"}
    assert max(map(abs, found.values())) < 0.02
    assert accuracy.gpu_busy.with_deep([window(1.0)], between[:2], readings) == {}


@pytest.mark.parametrize("shift_s", [0.0, 1_700_000_000.0], ids=["wall clock", "other clock"])
def test_samples_of_the_driver_speak_of_the_time_before_them(accuracy: Any, shift_s: float) -> None:
    rows = ((1_000_000, 50.0), (1_200_000, 60.0), (1_400_000, 70.0))
    refused: dict[str, str] = {}

    def read(since_us: int | None, samples: Any, now_s: float) -> Any:
        return accuracy.gpu_counters.of_samples(UtilSamples(since_us, samples), "nvml", now_s, refused)

    first = read(None, rows[:2], shift_s + 1.2)
    second = read(1_200_000, rows[2:], shift_s + 1.4)
    assert [(r.busy_pct, r.source) for r in (*first, *second)] == [(60.0, "nvml"), (70.0, "nvml")]
    edges = [edge for r in (*first, *second) for edge in (r.begin_s, r.end_s)]
    assert edges == pytest.approx([shift_s + s for s in (1.0, 1.2, 1.2, 1.4)])
    assert read(1_400_000, (), shift_s + 1.5) == []
    assert refused == {}


def test_counters_are_asked_through_the_products_seam(accuracy: Any) -> None:
    samples = UtilSamples(1_000_000, ((1_200_000, 90.0),))
    with_gpm = FakeGpus(answers=[replace(fake_answers(busy_pct=5.0), samples=samples)])
    without = FakeGpus(answers=[Answers(gpm=Refused("off"), samples=Refused("none"), utilization_pct=80)])
    counters = accuracy.gpu_counters.Counters(with_gpm, without)
    first, second = (accuracy.gpu_counters.read_counters(counters) for _ in range(2))
    assert [(r.source, r.busy_pct) for r in first] == [("gpm", 5.0), ("samples", 90.0)]
    assert [(r.source, r.busy_pct) for r in second][2:] == [("nvml", 80.0)], "the rate, since the last call"
    assert [r.end_s - r.begin_s for r in first] == pytest.approx([0.2, 0.2])
    assert (counters.nvml_by, counters.refused) == ("polling", {"samples": "none"})


def loop_of(accuracy: Any, *, iteration_s: float, slow_s: float, work_s: float) -> dict[str, Any]:
    """One window of a second between two stretches of a second; the work at each iteration's begin."""

    def stretch(begin_s: float, each_s: float) -> dict[str, Any]:
        return {"begin_s": begin_s, "end_s": begin_s + 1.0, "iterations": round(1.0 / each_s)}

    begins = [11.0 + n * slow_s for n in range(round(1.0 / slow_s))]
    busy = [[begin, begin + work_s] for begin in begins]
    marks = {"activities": len(busy), "first_after_begin_ms": 0.0, "last_before_end_ms": 0.0}
    window = {**stretch(11.0, slow_s), "busy": busy, "kernels_busy": busy, **marks}
    between = [stretch(10.0, iteration_s), stretch(12.0, iteration_s)]
    return {"first": stretch(5.0, iteration_s), "between": between, "windows": [window]}


def test_a_loop_that_kineto_slows_is_compared_without_kineto(accuracy: Any) -> None:
    """2 ms of work in 10 ms, under Kineto in 20 ms; a counter that is right outside and inflated inside."""
    loop = loop_of(accuracy, iteration_s=0.010, slow_s=0.020, work_s=0.002)

    def readings(source: str, *shares_pct: float) -> list[Any]:
        begins = (5.1, 10.1, 11.1, 12.1)
        make = accuracy.gpu_counters.Reading
        return [make(source, a, a + 0.8, pct) for a, pct in zip(begins, shares_pct, strict=True)]

    told = [*readings("gpm", 20, 21, 16, 21), *readings("nvml", 20, 22, 16, 22)]
    found = accuracy.gpu_busy.judged_loop("bursts", loop, told)
    assert found["same_window"]["gpm"]["off"] == pytest.approx(6.0, abs=0.01)
    assert found["off"] == {"gpm": pytest.approx(1.0), "nvml": pytest.approx(2.0)}
    assert found["before_any_profiler"]["gpm"]["off"] == pytest.approx(0.0)
    assert (found["iteration_ms"], found["work_ms"]) == (10.0, pytest.approx(2.0))
    assert found["slowed_pct"] == pytest.approx(100.0)


def test_copies_are_counted_by_the_products_rule(accuracy: Any) -> None:
    loop = loop_of(accuracy, iteration_s=0.010, slow_s=0.010, work_s=0.009)
    make = accuracy.gpu_counters.Reading
    told = [make("gpm", 10.1, 10.9, 0.0), make("samples", 10.1, 10.9, 88.0)]
    found = accuracy.gpu_busy.judged_loop("copies", loop, told)["unprofiled"]["gpm"]
    assert (found["counter_pct"], found["gpm_alone_pct"], found["copying_pct"]) == (88.0, 0.0, 88.0)
    assert found["off"] == pytest.approx(-2.0)
    near = [make("gpm", 10.1, 10.9, 85.0), make("samples", 10.1, 10.9, 91.0)]
    assert accuracy.gpu_busy.judged_loop("x", loop, near)["unprofiled"]["gpm"]["counter_pct"] == 85.0


class FakeTorch:
    """One kernel of a nanosecond at each step."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.now_ns = 0
        events = SimpleNamespace(events=lambda: [self.event(at_ns) for at_ns in self.started])
        profile = SimpleNamespace(
            start=self.started.clear, stop=lambda: None, profiler=SimpleNamespace(kineto_results=events)
        )
        self.cuda = SimpleNamespace(synchronize=lambda: None)
        self.autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda"))
        activity = SimpleNamespace(CUDA="cuda")
        self.profiler = SimpleNamespace(profile=lambda activities: profile, ProfilerActivity=activity)

    def step(self) -> None:
        self.now_ns += 10
        self.started.append(self.now_ns)

    def event(self, at_ns: int) -> Any:
        return SimpleNamespace(
            start_ns=lambda: at_ns, duration_ns=lambda: 1, name=lambda: "sin", device_type=lambda: "cuda",
            activity_type=lambda: "kernel",
        )  # fmt: skip


def test_each_window_has_a_stretch_without_kineto_on_both_sides(
    accuracy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy.gpu_loops, "BETWEEN_S", 0.0)
    monkeypatch.setattr(accuracy.gpu_loops.profiled, "__defaults__", (0.0,))
    torch = FakeTorch()
    found = accuracy.gpu_loops.measured(torch, torch.step, 2)
    assert (len(found["between"]), len(found["windows"])) == (3, 2)
    assert [window["activities"] for window in found["windows"]] == [1, 1]
    assert accuracy.gpu_busy.total_s(found["windows"][0]["busy"]) == pytest.approx(1e-9)
    assert accuracy.gpu_busy.judged_loop("x", {"first": found["between"][0], **found}, [])["off"] == {
        "gpm": None,
        "nvml": None,
    }


def test_work_of_an_iteration_is_that_of_the_windows_beside(accuracy: Any) -> None:
    assert accuracy.gpu_busy.beside([1.0, 3.0]) == [1.0, 2.0, 3.0]


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
