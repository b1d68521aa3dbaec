"""A deep window on a fake Kineto: when it opens and closes, what it leaves out, and what it never does."""

from __future__ import annotations

import os
import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest

from stoker.diagnose.deep import use_by_device
from stoker.diagnose.window import spans, training_window
from stoker.inside import deep, deep_trace, tape, wire
from stoker.inside.recorder import Recorder
from stoker.inside.wire import BACKWARD, DATA, FORWARD, OPTIM, OTHER, SYNC
from stoker.store.deep_files import read_trace

TICK_S = 0.25
DUE = 50
"""At this tick 12 s of training are over."""


def test_from_tick_to_tick(make, driven) -> None:
    trained = make()
    trained.ticks(DUE - 1)
    assert trained.torch.calls == []
    trained.ticks(1)
    assert trained.torch.calls == ["prepare", "enable"]
    trained.ticks(4)
    assert trained.torch.calls == ["prepare", "enable"]
    trained.ticks(1)  # a quarter to begin with, then one second
    assert trained.torch.calls[2:] == ["synchronize", "disable", "query", "events"]
    assert trained.recorder.at_tick is not None
    trained.ticks(3)
    assert trained.recorder.at_tick is None
    note = trained.read().deep
    assert (note.state, note.mode, note.why, note.ticks) == ("taken", "auto", "", 4)
    assert note.end_s - note.start_s == pytest.approx(1.0)


def test_beside_counters_of_real_work_it_comes_late(make) -> None:
    trained = make("late")
    trained.ticks(4 * 60)
    assert trained.torch.calls == []
    trained.ticks(10)
    assert trained.torch.calls[:2] == ["prepare", "enable"]


def test_where_ticks_are_told_of_in_groups_it_opens_at_the_next_tenth(make, driven) -> None:
    trained, state = make(), driven.recorder.thinning
    trained.ticks(DUE - 7)
    state.active, state.closely_frac, state.twice_mean = True, 1 / 12, 1000
    state.let_go("nobody")
    for _ in range(15):
        driven.step(TICK_S)
        assert driven.recorder.deferring
        assert trained.torch.calls == []
    state.want_settle = True  # a second is over: they are told of, at tick 59 of the training
    driven.recorder.left = 1
    driven.step(TICK_S)
    assert not driven.recorder.deferring, "from here on each at once"
    driven.step(TICK_S)
    assert trained.torch.calls == ["prepare", "enable"]
    assert driven.recorder.ticks % 10 == 0


def test_what_opening_and_closing_take_is_no_share_of_what_is_passed_over(make, driven) -> None:
    trained, state = make(), driven.recorder.thinning
    trained.torch.slow_s = {"prepare": 2.0, "disable": 3.0}
    state.active, state.closely_frac, state.twice_mean = True, 1 / 12, 1000
    trained.ticks(DUE + 30)
    assert trained.hook.window.row["state"] == "taken"
    assert max(map(sum, state.closely.values())) > 0
    assert state.known()[OTHER] < 0.01 * sum(state.known())


def test_its_events_are_on_our_clock(make, driven) -> None:
    trained = make()
    trained.ticks(DUE + 8)
    record = trained.read()
    trace = read_trace(driven.folder, record.deep)
    assert trace is not None
    assert trace.ticks_s == pytest.approx((0.0, 0.25, 0.5, 0.75, 1.0))
    in_window = [event.start_s for event in trace.events if event.start_s >= 0]
    assert in_window == pytest.approx([0.0, 0.25, 0.5, 0.75])
    (use,) = use_by_device(trace)
    assert use.busy_frac == pytest.approx(0.5)
    assert use.kernels_per_tick == 1
    assert record.deep.clock_us == 0


def test_calls_that_waited_or_asked_for_memory_are_kept(make, driven) -> None:
    """Not those that were done at once, nor launches in a full queue; and whose they are is told."""
    trained = make()
    trained.ticks(DUE + 1)
    now, here = driven.clock.now + 0.5, threading.get_native_id()
    calls = [
        ("cudaStreamSynchronize", 0.040, here),
        ("cudaStreamSynchronize", 0.000_005, here),
        ("cudaLaunchKernel", 0.040, here),
        ("cudaEventSynchronize", 0.040, here + 1),
        ("cudaMalloc", 0.002, here + 1),
        ("cudaMallocHost", 0.002, here),
    ]
    trained.torch.events += [
        trained.torch.event("cuda_runtime", name, now, seconds, stream=thread)
        for name, seconds, thread in calls
    ]
    trained.ticks(8)
    trace = read_trace(driven.folder, trained.read().deep)
    assert trace is not None
    kept = sorted((wait.name, wait.own, round(wait.end_s - wait.start_s, 6)) for wait in trace.waits)
    assert kept == [
        ("cudaEventSynchronize", False, 0.040),
        ("cudaMalloc", False, 0.002),
        ("cudaStreamSynchronize", True, 0.040),
    ]
    assert all(event.name == "gemm" for event in trace.events)


def test_no_window_and_no_tick_contains_it(make, driven) -> None:
    trained = make()
    trained.torch.slow_s = {"prepare": 3.0, "disable": 2.0, "events": 1.0}
    trained.ticks(DUE)
    trained.ticks(2, seconds=2.0)  # slowed by the profiler
    trained.ticks(3)
    trained.ticks(100)
    record = trained.read()
    assert [mark.stage for mark in record.marks] == ["train", "deep", "train", "after"]
    window = training_window(record)
    assert window.content.ticks == DUE - 1 + 100
    assert window.seconds == pytest.approx(TICK_S * window.content.ticks)
    assert {round(tick.duration_s, 6) for tick in record.ticks} == {TICK_S}
    assert len(record.ticks) == window.content.ticks
    (stage,) = [span.content for span in spans(record) if span.stage == "deep"]
    assert stage.ticks == 5
    assert stage.t_s == pytest.approx(6.0 + 4.0 + 3 * TICK_S)


def test_cupti_is_told_to_go_and_kineto_to_be_quiet(make, monkeypatch) -> None:
    trained = make()
    seen = {}
    trained.torch.called = lambda name: seen.setdefault(
        name, (os.environ.get("TEARDOWN_CUPTI"), os.environ.get("KINETO_LOG_LEVEL"))
    )
    trained.ticks(DUE + 8)
    assert seen["prepare"] == ("1", "99")
    assert seen["disable"] == ("1", None)
    assert os.environ["TEARDOWN_CUPTI"] == "1"


def test_waits_for_the_thread_that_detaches_cupti(make, clock, monkeypatch) -> None:
    trained = make()
    listings = iter([{"1"}, {"1", "2"}, {"1", "2"}, {"1", "2"}, {"1"}])
    monkeypatch.setattr(deep, "_threads", lambda: next(listings))
    monkeypatch.setattr(deep, "sleep", clock.advance)
    trained.ticks(DUE + 8)
    assert trained.torch.calls.count("query") == 3
    assert trained.read().deep.stall_s["teardown"] == pytest.approx(0.004)


def test_does_not_wait_for_ever(make, clock, monkeypatch) -> None:
    trained = make()
    listings = iter([{"1"}])
    monkeypatch.setattr(deep, "_threads", lambda: next(listings, {"1", "2"}))
    monkeypatch.setattr(deep, "sleep", clock.advance)
    trained.ticks(DUE + 8)
    note = trained.read().deep
    assert note.taken
    assert note.stall_s["teardown"] is None


@pytest.mark.parametrize("step", ["prepare", "enable", "synchronize", "disable", "query", "events"])
def test_a_failure_is_ours_alone(step: str, make, driven) -> None:
    trained = make()
    trained.torch.fails = (step,)
    trained.ticks(DUE + 60)
    record = trained.read()
    assert record.deep.state == "failed"
    assert step in record.deep.why
    assert [(hook.name, hook.when) for hook in record.hook_failures] == [("deep", "call")]
    assert [mark.stage for mark in record.marks] == ["train", "deep", "train", "after"]
    assert type(trained.recorder) is Recorder
    assert trained.recorder.at_tick is None
    assert "_guard" not in trained.torch.autograd.profiler.profile._prepare_trace.__qualname__
    assert "disable" in trained.torch.calls or step == "prepare"


def test_a_profiler_that_does_not_stop_is_told_beside_what_failed_first(make) -> None:
    trained = make()
    trained.torch.fails = ("synchronize", "disable")
    trained.ticks(DUE + 60)
    assert trained.torch.calls.count("disable") == 1
    why = trained.read().deep.why
    assert "synchronize failed" in why
    assert why.endswith("; then stopping the profiler: RuntimeError('disable failed')")


def test_a_fault_before_it_is_due(make) -> None:
    trained = make(fault="deep:3")
    trained.ticks(DUE + 10)
    record = trained.read()
    assert trained.torch.calls == []
    assert [hook.name for hook in record.hook_failures] == ["deep"]
    assert [mark.stage for mark in record.marks] == ["train", "after"]


def test_a_fault_when_it_is_put_in(make) -> None:
    trained = make(fault="deep:install")
    trained.ticks(DUE + 10)
    record = trained.read()
    assert [(hook.name, hook.when) for hook in record.hook_failures] == [("deep", "install")]
    assert record.deep is None


def refused(trained) -> str:
    trained.ticks(DUE + 60)
    assert trained.torch.calls == []
    note = trained.read().deep
    assert note.state == "not taken"
    assert trained.recorder.at_tick is None
    return note.why


def test_not_beside_a_running_profiler(make) -> None:
    trained = make("asked")
    trained.torch.enabled = True
    assert "profiler of its own" in refused(trained)


def test_not_beside_a_profiler_with_a_schedule(make) -> None:
    trained = make("asked")
    own = trained.torch.profiler.profile(schedule="every 100 steps")
    assert "profiler of its own" in refused(trained)
    assert own.schedule == "every 100 steps"


def test_a_profiler_that_is_over_does_not_count(make) -> None:
    trained = make()
    own = trained.torch.profiler.profile()
    assert own.stop() == "stopped"
    trained.ticks(DUE)
    assert trained.torch.enabled


def test_the_script_starts_its_own_in_the_window(make) -> None:
    trained = make()
    trained.ticks(DUE + 3)
    profile = trained.torch.autograd.profiler.profile
    own = profile()
    own._prepare_trace()
    trained.torch.enable("config", {"CUDA"})  # would be two at a time
    assert trained.torch.calls[2:] == ["synchronize", "disable", "query", "events", "prepare", "enable"]
    assert "_guard" not in profile._prepare_trace.__qualname__
    note = trained.read().deep
    assert (note.taken, note.ticks) == (True, 2)
    assert "profiler of its own" in note.why


def test_not_without_cuda(make) -> None:
    trained = make("asked")
    trained.torch.cuda.is_initialized = lambda: False
    assert refused(trained) == "the training does not use CUDA"


def test_not_with_a_torch_that_cannot(make) -> None:
    trained = make("asked")
    trained.torch._C._autograd._supported_activities = set
    assert "no CUPTI" in refused(trained)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TEARDOWN_CUPTI", "0", "slower ever after"),
        ("DISABLE_CUPTI_LAZY_REINIT", "1", "slower ever after"),
        ("CUDA_INJECTION64_PATH", "/x", "Nsight"),
    ],
)
def test_not_against_the_environment(name: str, value: str, said: str, make, monkeypatch) -> None:
    trained = make("asked")
    monkeypatch.setenv(name, value)
    assert said in refused(trained)
    assert os.environ[name] == value


@pytest.mark.parametrize(
    ("mode", "cuda", "taken"), [("auto", "12.8", False), ("asked", "12.8", True), ("asked", "12.4", False)]
)
def test_cuda_graphs(mode: str, cuda: str, taken: bool, make) -> None:
    trained = make(mode)
    trained.torch.version.cuda = cuda
    graph = trained.torch.cuda.CUDAGraph()
    assert (graph.capture_begin(), graph.capture_end()) == ("capturing", "captured")
    trained.ticks(DUE + 10)
    note = trained.read().deep
    assert note.taken is taken
    assert note.cuda_graphs if taken else "CUDA graphs" in note.why


def test_not_during_a_capture(make) -> None:
    trained = make("asked")
    trained.torch.capturing = True
    trained.ticks(DUE + 5)
    assert trained.torch.calls == []
    trained.torch.capturing = False
    trained.ticks(5)  # it looks at every tenth
    assert trained.torch.enabled
    trained.torch.capturing = True
    trained.ticks(10)
    assert trained.torch.enabled
    trained.torch.capturing = False
    trained.ticks(1)
    assert not trained.torch.enabled


def test_not_during_a_capture_of_another_thread(make) -> None:
    trained = make("asked")
    graph = trained.torch.cuda.CUDAGraph()
    graph.capture_begin()
    trained.ticks(DUE + 5)
    assert trained.torch.calls == []
    graph.capture_end()
    trained.ticks(5)
    assert trained.torch.enabled


def test_ends_where_no_tick_comes(make, driven) -> None:
    trained = make()
    trained.ticks(DUE + 3)
    for _ in range(12):
        driven.spend(DATA, 1.0)
    assert not trained.torch.enabled
    assert type(trained.recorder) is Recorder
    note = trained.read().deep
    assert (note.taken, note.ticks) == (True, 2)
    assert "no tick came" in note.why


def test_ends_with_the_process(make, driven) -> None:
    trained = make()
    trained.ticks(DUE + 3)
    record = trained.read()
    assert trained.torch.calls == ["prepare", "enable"]  # a device that hangs is not waited for
    assert record.deep.why == "the process ended in the window"
    assert [mark.stage for mark in record.marks] == ["train", "deep", "after"]


def test_too_short_a_training(make) -> None:
    trained = make("asked")
    trained.ticks(DUE - 1)
    assert "there were not 10 s and 50 ticks" in trained.read().deep.why


def test_an_evaluation_in_the_window(make, driven) -> None:
    trained = make()
    trained.ticks(DUE + 3)
    trained.recorder.named_eval_begins()
    driven.spend(FORWARD, 5.0)
    trained.recorder.named_eval_ends()
    trained.ticks(20)
    record = trained.read()
    stages = [mark.stage for mark in record.marks]
    assert stages == ["train", "deep", "eval", "deep", "train", "after"]
    assert (record.deep.taken, record.deep.ticks) == (True, 2)
    assert {round(tick.duration_s, 6) for tick in record.ticks} == {TICK_S}


def test_a_fork_in_the_window(make, driven) -> None:
    trained = make()
    trained.ticks(DUE + 3)
    driven.agent.forked()
    assert type(trained.recorder) is Recorder
    assert trained.hook.window.state == deep.WAITING
    assert trained.recorder.at_tick is not None


def test_a_bounded_number_of_events(make, driven, monkeypatch) -> None:
    monkeypatch.setattr(wire, "DEEP_EVENTS_MAX", 3)
    trained = make()
    trained.ticks(DUE + 8)
    note = trained.read().deep
    assert (note.events, note.dropped) == (3, 2)
    assert len(read_trace(driven.folder, note).events) == 3


def test_an_unfitting_clock_is_a_failure(make) -> None:
    trained = make()
    trained.ticks(DUE + 1)
    trained.torch.events.append(trained.torch.event("kernel", "gemm", -1e6, 1.0))
    trained.ticks(10)
    assert "clock" in trained.read().deep.why


def test_host_phases_are_exact(make, driven, clock) -> None:
    trained = make()
    trained.ticks(DUE + 1)
    driven.spend(DATA, 0.125)
    driven.model(0.25)
    clock.advance(0.0625)
    start = clock.now
    clock.advance(0.03125)
    trained.recorder.attribute(SYNC, start)
    driven.tick(0.5, phase=BACKWARD)
    trained.ticks(10)
    host = read_trace(driven.folder, trained.read().deep).host
    phases = {span.phase: round(span.end_s - span.start_s, 9) for span in host if 0 <= span.start_s < 0.9}
    assert phases == {"data": 0.125, "forward": 0.25, "loss": 0.0625, "sync": 0.03125, "backward": 0.5}
    for before, after in pairwise(host):
        assert before.end_s == pytest.approx(after.start_s)


def test_the_clock_drifts_with_the_anchors() -> None:
    clock = deep_trace.Clock((1000, 0, 5), (2000, 1100, 7))
    assert [clock.perf_ns(unix) for unix in (1000, 1500, 2000)] == [0, 550, 1100]
    assert clock.doubt_ns == 107


def test_older_torch_is_told_by_names() -> None:
    def event(name, device="cuda"):
        return SimpleNamespace(name=lambda: name, device_type=lambda: device)

    kind_of = deep_trace._by_name("cuda")
    assert kind_of(event("Memcpy HtoD (Pinned -> Device)")) == wire.COPY
    assert kind_of(event("Memset (Device)")) == wire.FILL
    assert kind_of(event("ampere_sgemm")) == wire.KERNEL
    assert kind_of(event("cudaLaunchKernel", device="cpu")) is None
    assert kind_of(event("Stream Sync")) is None


def test_overlaid_spans_keep_their_sum() -> None:
    spans_ = [(0.0, 1.0, OPTIM), (1.0, 2.0, DATA)]
    cut = tape._overlaid(spans_, [(0.2, 0.4, SYNC), (0.9, 1.1, SYNC)])
    assert cut == [
        (0.0, 0.2, OPTIM),
        (0.2, 0.4, SYNC),
        (0.4, 0.9, OPTIM),
        (0.9, 1.0, SYNC),
        (1.0, 1.1, SYNC),
        (1.1, 2.0, DATA),
    ]
