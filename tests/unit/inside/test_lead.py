"""The GPU's lead on a simulated GPU: a stream that works off what it is given, and a host that gives it."""

from __future__ import annotations

import gc
import weakref

import pytest

from stoker.inside import lead, tape, wire
from stoker.inside.hooks.lead import LeadHook
from stoker.inside.lead_account import place
from stoker.inside.wire import BACKWARD, DATA, ENV, GC, OPTIM, SYNC

EVENT_S = 0.000006


class Stream:
    device_index, cuda_stream = 0, 0

    def __init__(self, clock) -> None:
        self.clock, self.busy_until, self.busy_s, self.queries = clock, 0.0, 0.0, 0

    def give(self, seconds: float) -> None:
        self.busy_until = max(self.clock.now, self.busy_until) + seconds
        self.busy_s += seconds

    def query(self) -> bool:
        self.queries += 1
        return self.clock.now >= self.busy_until


class Event:
    def __init__(self, cuda) -> None:
        self.cuda, self.done = cuda, 0.0

    def record(self, stream) -> None:
        self.cuda.recorded += 1
        self.done = max(self.cuda.clock.now, stream.busy_until) + EVENT_S

    def query(self) -> bool:
        return self.cuda.clock.now >= self.done

    def elapsed_time(self, other) -> float:
        return 1000 * (other.done - self.done)


class Cuda:
    def __init__(self, clock) -> None:
        self.clock, self.stream, self.recorded = clock, Stream(clock), 0
        self.initialized, self.stream_captures = True, False

    def is_initialized(self) -> bool:
        return self.initialized

    def is_current_stream_capturing(self) -> bool:
        return self.stream_captures

    def current_stream(self):
        return self.stream

    def Event(self, enable_timing):
        assert enable_timing
        return Event(self)


class Trained:
    def __init__(self, driven, cuda) -> None:
        self.driven, self.cuda, self.clock = driven, cuda, driven.clock
        self.hook = LeadHook(driven.agent)
        self.hook.install_in(cuda)
        driven.recorder.adopt()

    def issue(self, phase: int, pieces: int, host_s: float, gpu_s: float) -> None:
        """A phase in which the host hands over one piece of work after another."""

        def work() -> None:
            for _ in range(pieces):
                self.clock.advance(host_s)
                self.cuda.stream.give(gpu_s)

        if phase == wire.FORWARD:
            self.driven.model_on(work)
        else:
            self.driven.spend_on(phase, work)

    def update(self, pieces: int = 10, host_s: float = 0.00005, gpu_s: float = 0.0003) -> None:
        self.issue(wire.FORWARD, pieces, host_s, gpu_s)
        self.issue(BACKWARD, pieces, host_s, gpu_s)
        self.driven.spend_on(OPTIM, self._queue_is_full)
        self.driven.step(0.0001)

    def _queue_is_full(self) -> None:
        """A launch waits where too many are pending."""
        self.clock.now = max(self.clock.now, self.cuda.stream.busy_until - 0.060)

    def wait(self) -> None:
        """loss.item()"""
        start = self.clock.now
        self.clock.now = max(start + 0.00002, self.cuda.stream.busy_until)
        self.driven.recorder.attribute(SYNC, start)

    def run(self, body, ticks: int = 600) -> dict[str, list[float]]:
        for tick in range(ticks):
            body()
            if tick % 20 == 0:
                self.driven.flush()
        row = self.hook.row()
        assert row is not None
        self.row = row
        return row["phases"]


@pytest.fixture
def trained(driven, clock, monkeypatch) -> Trained:
    monkeypatch.setattr(lead, "perf_counter", clock)
    monkeypatch.setattr(tape, "perf_counter", clock)
    return Trained(driven, Cuda(clock))


def frac(sums: list[float], kind: int) -> float:
    return sums[kind] / sums[0]


HOST, IDLE, NEAR, UNKNOWN = range(4)


def test_env_after_a_wait_is_idle_and_no_event_is_recorded(trained: Trained) -> None:
    def body() -> None:
        trained.driven.spend(ENV, 0.010)
        trained.update()
        trained.wait()

    phases = trained.run(body)
    assert trained.row["by"] == "asked"
    assert trained.cuda.recorded == 0
    assert frac(phases["env"], IDLE) == pytest.approx(1.0)
    assert frac(phases["sync"], IDLE) == 0.0
    assert frac(phases["backward"], IDLE) == 0.0


def test_data_under_a_queue_is_hidden(trained: Trained) -> None:
    def body() -> None:
        trained.driven.spend(DATA, 0.030)
        trained.update(gpu_s=0.0035)

    phases = trained.run(body)
    assert trained.row["by"] == "events"
    assert frac(phases["data"], IDLE) == pytest.approx(0.0, abs=0.01)
    assert trained.row["doubt_s"] < 0.05


def test_data_longer_than_the_queue_is_idle_for_the_difference(trained: Trained) -> None:
    def body() -> None:
        trained.driven.spend(DATA, 0.030)
        trained.update(gpu_s=0.0005)  # 10 ms, of which 9 are left when data begins

    phases = trained.run(body)
    assert frac(phases["data"], IDLE) == pytest.approx(0.7, abs=0.03)


def test_small_pieces_are_launching(trained: Trained) -> None:
    phases = trained.run(lambda: trained.update(pieces=24, host_s=0.00003, gpu_s=0.000004))
    assert frac(phases["forward"], NEAR) > 0.9
    assert frac(phases["backward"], NEAR) > 0.9
    assert sum(row[IDLE] for row in phases.values()) < 0.1 * sum(row[HOST] for row in phases.values())


@pytest.mark.parametrize("waits", [True, False])
def test_an_env_on_the_gpu_is_not_idle(trained: Trained, waits: bool) -> None:
    def body() -> None:
        trained.issue(ENV, 50, 0.00002, 0.0003)
        trained.update()
        if waits:
            trained.wait()

    phases = trained.run(body)
    assert phases["env"][IDLE] == 0.0


@pytest.mark.parametrize("waits", [True, False])
def test_memory_given_out_tells_of_work_that_is_done_already(trained: Trained, waits: bool) -> None:
    given = 0

    def stats(device):
        assert device == 0
        return {"allocation": {"all": {"allocated": given}}}

    def env_step() -> None:
        nonlocal given
        given += 50
        trained.clock.advance(0.005)
        trained.cuda.stream.give(0.00001)
        trained.clock.advance(0.0001)  # on its way back

    def body() -> None:
        trained.driven.spend_on(ENV, env_step)
        trained.update(pieces=3)
        if waits:
            trained.wait()

    trained.cuda.get_allocator_backend = lambda: "native"
    trained.cuda.memory_stats_as_nested_dict = stats
    phases = trained.run(body)
    assert phases["env"][IDLE] == 0.0
    assert frac(phases["env"], NEAR) > 0.5


def test_a_copy_now_and_then_is_not_launching(trained: Trained) -> None:
    """20 ms of Python, in which four tensors reach the GPU: it waits for the Python."""
    given = 0

    def body() -> None:
        nonlocal given
        given += 4
        trained.clock.advance(0.020)
        trained.cuda.stream.give(0.0001)
        trained.update(pieces=3)

    trained.cuda.get_allocator_backend = lambda: "native"
    trained.cuda.memory_stats_as_nested_dict = lambda device: {"allocation": {"all": {"allocated": given}}}
    phases = trained.run(body)
    assert frac(phases["other"], IDLE) > 0.8
    assert phases["other"][NEAR] == 0.0


@pytest.mark.parametrize("on_gpu", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_model_called_on_the_cpu_leaves_the_gpu_idle(trained: Trained, on_gpu: bool, waits: bool) -> None:
    """A teacher of which nobody knows where it is; on the GPU each of its operations takes some memory there,
    and is done before the next one comes."""
    given = 0

    def teacher() -> None:
        nonlocal given
        for _ in range(100):
            trained.clock.advance(0.0001)
            if on_gpu:
                given += 1
                trained.cuda.stream.give(0.00001)
        trained.clock.advance(0.0001)

    def body() -> None:
        trained.driven.spend_on(wire.INFER, teacher)
        trained.update(pieces=3)
        if waits:
            trained.wait()

    trained.cuda.get_allocator_backend = lambda: "native"
    trained.cuda.memory_stats_as_nested_dict = lambda device: {"allocation": {"all": {"allocated": given}}}
    phases = trained.run(body)
    assert frac(phases["infer"], NEAR if on_gpu else IDLE) > 0.5
    assert phases["infer"][IDLE if on_gpu else NEAR] < 0.05 * phases["infer"][HOST]
    assert phases["forward"][IDLE] == 0.0


def test_saving_is_waited_for_though_it_copies_from_the_gpu(trained: Trained) -> None:
    def save() -> None:
        for _ in range(3):
            trained.cuda.stream.give(0.0001)
            trained.clock.advance(0.010)

    def body() -> None:
        trained.driven.spend_on(wire.SAVE, save)
        trained.update(pieces=3)

    phases = trained.run(body)
    assert frac(phases["save"], IDLE) > 0.8


def test_a_collection_in_the_queue_costs_the_gpu_nothing(trained: Trained) -> None:
    def body() -> None:
        trained.update(gpu_s=0.001)
        start = trained.clock.now
        trained.clock.advance(0.003)
        trained.driven.recorder.attribute(GC, start)

    assert frac(trained.run(body)["gc"], IDLE) == pytest.approx(0.0, abs=0.01)


def test_nothing_is_done_while_a_graph_is_captured(trained: Trained) -> None:
    trained.hook.capturing = 1
    for _ in range(200):
        trained.update()
    assert trained.cuda.recorded == trained.cuda.stream.queries == 0
    trained.hook.capturing = 0
    trained.cuda.stream_captures = True
    for _ in range(200):
        trained.update()
    assert trained.cuda.recorded == trained.cuda.stream.queries == 0


def test_a_capture_that_begins_within_a_sample_spoils_it(trained: Trained) -> None:
    while trained.hook.clock.tape is None:
        trained.update()
    recorded = trained.cuda.recorded
    trained.hook.capturing = 1
    trained.update()
    assert trained.cuda.recorded == recorded
    trained.hook.capturing = 0
    trained.update()
    assert trained.hook.row() is None
    assert type(trained.driven.recorder).__name__ == "Recorder"


def test_cuda_that_the_script_has_not_started_is_not_touched(trained: Trained) -> None:
    trained.cuda.initialized = False
    trained.cuda.current_stream = None  # a call would fail
    for _ in range(200):
        trained.update()
    assert trained.hook.error is None


def test_a_failing_event_is_listed_and_the_other_hooks_stay(trained: Trained, monkeypatch) -> None:
    def fails(self, stream) -> None:
        raise RuntimeError("no event")

    monkeypatch.setattr(Event, "record", fails)
    for _ in range(200):
        trained.update()
    assert "no event" in trained.hook.error
    assert trained.driven.recorder.at_lead is None
    assert not trained.driven.recorder.thinning.holders
    assert type(trained.driven.recorder).__name__ == "Recorder"


def test_the_share_of_looking_is_limited(trained: Trained, clock, monkeypatch) -> None:
    def slow(self, stream) -> None:
        clock.advance(0.0001)
        self.done = max(clock.now, stream.busy_until) + EVENT_S

    monkeypatch.setattr(Event, "record", slow)
    began = clock.now
    trained.run(trained.update, ticks=20_000)
    assert trained.row["cost_s"] / (clock.now - began) < 1.5 * lead.SHARE_MAX
    assert trained.row["iterations"] >= 2


def test_two_streams_are_told_apart(trained: Trained) -> None:
    trained.run(trained.update)
    other = Stream(trained.clock)
    other.cuda_stream = 77
    trained.cuda.stream = other
    trained.run(trained.update, ticks=2000)
    assert (trained.row["stream"], trained.row["streams"]) == (77, 2)


def test_a_child_of_a_fork_begins_anew(trained: Trained) -> None:
    trained.run(trained.update)
    while trained.hook.clock.tape is None:
        trained.update()
    trained.driven.agent.hooks = [trained.hook]
    trained.driven.agent.forked()
    recorder, recorded = trained.driven.recorder, trained.cuda.recorded
    assert type(recorder).__name__ == "Recorder"
    recorder.phase = ENV
    assert trained.cuda.recorded == recorded
    assert trained.hook.row() is None
    assert recorder.at_lead is not None


def test_no_event_is_freed_in_a_child(trained: Trained) -> None:
    """To free one asks CUDA, which a child of a fork cannot use: torch would end it."""
    trained.run(trained.update)
    clock = trained.hook.clock
    while not (clock.pool and getattr(clock.tape, "events", None)):
        trained.update()
    events = [weakref.ref(event) for event in [*clock.pool, *clock.tape.events]]
    trained.driven.agent.hooks = [trained.hook]
    trained.driven.agent.forked()
    del clock
    gc.collect()
    assert events
    assert all(event() is not None for event in events)


def test_phases_are_the_same_with_samples_and_without(trained: Trained) -> None:
    trained.run(trained.update, ticks=2000)
    recorder = trained.driven.recorder
    recorder.thinning.settle()
    found = dict(zip(wire.PHASES, recorder.thinning.spread(recorder.snapshot().totals), strict=True))
    assert found["forward"] == pytest.approx(2000 * 0.0005, rel=0.02)
    assert found["backward"] == pytest.approx(2000 * 0.0005, rel=0.02)
    assert found["other"] == pytest.approx(0.0, abs=1e-4)


def test_the_clock_is_placed_between_what_is_known() -> None:
    # recorded, elapsed, last found pending, first found done
    busy = [(10.0, 0.0, 10.00, 10.3), (10.1, 0.2, 10.15, 10.5), (10.2, 0.4, 10.55, 10.7)]
    offset, doubt = place(busy)
    assert offset == pytest.approx(10.15)
    assert doubt == pytest.approx(0.15)
    idle = [(10.0, 0.0, 10.0, 10.00001), (10.5, 0.5, 10.5, 10.50001)]
    assert place(idle) == (pytest.approx(10.0), pytest.approx(0.0, abs=2e-5))


def test_other_work_of_the_host_is_idle_too(trained: Trained) -> None:
    def body() -> None:
        trained.update(gpu_s=0.0001)
        trained.clock.advance(0.010)

    phases = trained.run(body)
    assert frac(phases["other"], IDLE) > 0.8


def test_row_is_read_back(trained: Trained) -> None:
    trained.run(trained.update)
    trained.driven.agent.hooks = [trained.hook]
    trained.driven.agent.flush(last=True)
    found = trained.driven.read().lead
    assert found is not None
    assert found.by == "events"
    assert found.phases["forward"].host_s == pytest.approx(trained.row["phases"]["forward"][0])
