"""The deep window in real processes: a CPU torch says why there is none; the real Kineto, on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.diagnose.deep import use_by_device
from stoker.report.run_notes import notes
from stoker.store.deep_files import read_trace

STEPS = "600"


def test_a_cpu_torch_says_why_there_is_none(watch, scripts: Path) -> None:
    done = watch("python", str(scripts / "supervised.py"), "--steps", "60", deep="asked")
    assert (done.code, done.err) == (0, "")
    assert (done.record.deep.state, done.record.deep.mode) == ("not taken", "asked")
    assert "no deep window was taken: this torch is built without CUDA" in notes(done.summary)
    assert "deep" not in done.main.stages_s


def test_nobody_is_told_where_nobody_asked(watch, scripts: Path) -> None:
    done = watch("python", str(scripts / "supervised.py"), "--steps", "60", deep="auto")
    assert done.record.deep.state == "not taken"
    assert not [note for note in notes(done.summary) if "deep" in note]


def test_a_window_of_the_real_kineto(watch, bare, scripts: Path) -> None:
    expected = bare("python", str(scripts / "deep_on_cpu.py"), STEPS)
    done = watch("python", str(scripts / "deep_on_cpu.py"), STEPS, deep="asked")
    assert (done.code, done.err) == (0, "")  # Kineto says nothing on the script's stderr
    assert done.out == expected.stdout
    note = done.record.deep
    assert note.taken, note.why
    assert not done.record.hook_failures
    assert note.end_s - note.start_s > 0.3
    assert {"train", "deep"} <= done.main.stages_s.keys()
    trace = read_trace(done.folder, note)
    assert trace is not None
    assert len(trace.ticks_s) == note.ticks + 1
    (use,) = use_by_device(trace)
    assert use.kernels_per_tick == pytest.approx(use.kernels / note.ticks)
    # It sleeps in the loader: what operations leave free is data, to the exactness of both clocks.
    assert use.gaps.by_phase_s["data"] > 0.5 * use.gaps.total_s
    host_data_s = sum(span.end_s - span.start_s for span in trace.host if span.phase == "data")
    assert use.gaps.by_phase_s["data"] <= host_data_s
    in_data = _seconds_in(trace, "data", "aten::addmm")
    assert in_data < 0.02 * sum(event.seconds for event in trace.events if event.name == "aten::addmm")


def _seconds_in(trace, phase: str, name: str) -> float:
    """A matrix product is no part of loading: a clock that is off would put it there."""
    spans = [(span.start_s, span.end_s) for span in trace.host if span.phase == phase]
    events = [event for event in trace.events if event.name == name]
    assert events
    return sum(
        max(0.0, min(event.end_s, end) - max(event.start_s, start))
        for event in events
        for start, end in spans
    )
