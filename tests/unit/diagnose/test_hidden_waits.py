"""Waits inside of torch, from the calls into CUDA that a deep window saw to last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.causes.taken import signals
from stoker.diagnose.deep import use_by_device
from stoker.diagnose.hidden_waits import HiddenWait
from stoker.diagnose.summary import summarise
from stoker.diagnose.verdict import judge
from stoker.model.deep import Activity, DeepNote, DeepTrace, DeviceEvent, HostSpan, HostWait
from stoker.model.record import Sampled

TICKS = 10
SYNC, COPY = "cudaStreamSynchronize", "cudaMemcpyAsync"


def trace(*waits: HostWait, copies: tuple[tuple[float, str], ...] = ()) -> DeepTrace:
    """A second in which each tick is half the model's, half the user's own code; the GPU works through."""
    host = [
        HostSpan(tick / 10 + half / 20, tick / 10 + (half + 1) / 20, phase)
        for tick in range(TICKS)
        for half, phase in enumerate(("forward", "other"))
    ]
    kernels = [DeviceEvent(Activity.KERNEL, 0.0, 1.0, 0, 7, "gemm")]
    moved = [DeviceEvent(Activity.COPY, end - 1e-5, end, 0, 7, name) for end, name in copies]
    note = DeepNote("taken", "asked", start_s=50.0, end_s=51.0, ticks=TICKS)
    ends = tuple(tick / 10 for tick in range(TICKS + 1))
    return DeepTrace(
        note, tuple(sorted([*kernels, *moved], key=lambda one: one.start_s)), tuple(host), ends, waits
    )


def found(seen: DeepTrace) -> tuple[HiddenWait, ...]:
    (use,) = use_by_device(seen)
    return use.hidden_waits


def in_own_code(name: str, seconds: float = 0.03) -> list[HostWait]:
    """In the second half of every tick."""
    return [HostWait(tick / 10 + 0.06, tick / 10 + 0.06 + seconds, name) for tick in range(TICKS)]


def test_a_wait_in_the_users_own_code_is_told() -> None:
    (wait,) = found(trace(*in_own_code(SYNC)))
    assert (wait.kind, wait.phase, wait.count) == ("sync", "other", TICKS)
    assert wait.seconds == pytest.approx(TICKS * 0.03)
    assert wait.idle_s == 0.0, "the GPU works through"


def test_a_wait_in_a_phase_that_waits_anyway_is_none_of_these() -> None:
    seen = trace(*in_own_code(SYNC))
    host = tuple(HostSpan(one.start_s, one.end_s, "sync") for one in seen.host)
    assert found(DeepTrace(seen.note, seen.events, host, seen.ticks_s, seen.waits)) == ()


def test_a_copy_waits_only_if_it_goes_to_the_host_or_comes_from_there() -> None:
    back = tuple((tick / 10 + 0.09, "Memcpy DtoH (Device -> Pageable)") for tick in range(TICKS))
    within = tuple((end, "Memcpy DtoD (Device -> Device)") for end, _ in back)
    (read,) = found(trace(*in_own_code(COPY), copies=back))
    assert (read.kind, read.count) == ("sync", TICKS)
    assert found(trace(*in_own_code(COPY), copies=within)) == ()


def copied_in_own_code(kernels: tuple[tuple[float, float], ...] = ((0.0, 1.0),)) -> DeepTrace:
    """`torch.as_tensor(batch, device="cuda")` in every tick: it waits until the copy is done."""
    there = tuple((tick / 10 + 0.0899, "Memcpy HtoD (Pageable -> Device)") for tick in range(TICKS))
    seen = trace(*in_own_code(SYNC), copies=there)
    copies = tuple(one for one in seen.events if one.kind is Activity.COPY)
    work = tuple(DeviceEvent(Activity.KERNEL, start, end, 0, 7, "gemm") for start, end in kernels)
    return replace(seen, events=tuple(sorted((*work, *copies), key=lambda one: one.start_s)))


def test_a_wait_for_a_copy_to_the_gpu_is_told_apart() -> None:
    (wait,) = found(copied_in_own_code())
    assert (wait.kind, wait.phase, wait.count) == ("h2d", "other", TICKS)


def test_how_long_no_kernel_runs_meanwhile() -> None:
    """Each wait is from 60 to 90 ms of its tick; kernels run until 70 ms."""
    work = tuple((tick / 10, tick / 10 + 0.07) for tick in range(TICKS))
    (wait,) = found(copied_in_own_code(work))
    assert wait.idle_s == pytest.approx(TICKS * 0.02)


@pytest.fixture
def verdict(make: Any, cards: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of a training whose own code takes half of the time, mostly in one line; `seen` is its deep window."""

    def told(seen: DeepTrace) -> tuple[list[str], Any]:
        shares = {"forward": 0.5, "other": 0.5}
        lines = (
            Sampled("other", "train", make.place("/home/me/project/train.py:12 mark"), 80, computes=0),
            Sampled("other", "train", make.place("/home/me/project/train.py:40 rays"), 40, computes=0),
            Sampled("forward", "train", make.place("/home/me/project/train.py:20 forward"), 120, computes=0),
        )
        lead = cards.lead({"forward": (30.0, 0.0, 0.0, 0.0), "other": (30.0, 20.0, 0.0, 0.0)})
        counted = cards.record(cards.readings(60.0, sm_active_pct=55.0))
        run = cards.run(make, shares, counted, lead, sampled=lines, deep=seen.note, ticks_per_s=10.0)
        monkeypatch.setattr("stoker.diagnose.summary.read_trace", lambda *_: seen)
        marks = signals(summarise(run))
        assert marks is not None
        said = judge(marks)
        return [one.code for one in said.findings], said.findings[0]

    return told


def test_it_is_reads_in_every_tick_and_its_line_the_one_looks_find(verdict: Any) -> None:
    codes, first = verdict(trace(*in_own_code(SYNC)))
    assert codes[0] == "SK401"
    assert first.place.leaf[1:] == (12, "mark")
    assert any("waiting inside of torch" in one.text for one in first.evidence)
    before, _ = verdict(trace())
    assert before == ["SK201"]


def test_a_copy_inside_of_torch_is_a_blocking_copy_in_its_line(verdict: Any) -> None:
    work = tuple((tick / 10, tick / 10 + 0.06) for tick in range(TICKS))
    codes, first = verdict(copied_in_own_code(work))
    assert codes == ["SK403"]
    assert first.place.leaf[1:] == (12, "mark")
    assert any("copying inside of torch" in one.text for one in first.evidence)


def test_a_wait_now_and_then_is_not(verdict: Any) -> None:
    codes, _ = verdict(trace(*in_own_code(SYNC)[:3]))
    assert codes == ["SK201"]


def test_another_threads_waits_are_not_the_trainings() -> None:
    theirs = [HostWait(one.start_s, one.end_s, one.name, own=False) for one in in_own_code(SYNC)]
    assert found(trace(*theirs)) == ()


def test_memory_asked_of_the_driver_is_told_by_phase_whoever_asks() -> None:
    calls = [HostWait(0.01, 0.02, "cudaMalloc", own=False), HostWait(0.06, 0.09, "cudaFree")]
    seen = trace(*calls, *in_own_code(SYNC))
    (unknown,) = use_by_device(seen)
    assert unknown.driver_memory_s is None, "recorded before such calls were"
    (use,) = use_by_device(replace(seen, note=replace(seen.note, threads=(7,))))
    assert use.driver_memory_s == pytest.approx({"other": 0.03, "forward": 0.01})
