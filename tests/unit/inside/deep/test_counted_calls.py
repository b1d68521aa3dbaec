"""All that Stoker asks of CUDA in a training, counted: the lead, the devices and the deep window together.

A torch.cuda that knows only what it must know: whatever else is asked of it fails, and is noted, since hooks
keep their failures to themselves. It has two devices, of which the script uses the second.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

from stoker.inside import lead
from stoker.inside.hooks import transfers
from stoker.inside.hooks.lead import LeadHook
from stoker.inside.hooks.transfers import TransferHook
from stoker.inside.wire import BACKWARD, ENV

DEVICES, USED = 2, 1
BEFORE_CONTEXT = {"is_initialized", "_is_compiled"}
"""What may be asked before the script has a context: the rest of torch.cuda would make one."""
OF_ANY_DEVICE = {"memory_stats_as_nested_dict"}
"""torch's own allocator keeps them in the host's memory: no context comes of asking (inside/devices.py)."""
TICK_S, PIECES = 0.020, 10
QUEUED_S = 0.060
"""So far the host gets ahead, in a loop that does not read; then a launch waits."""


class Strict:
    def __init__(self, card) -> None:
        self.card = card

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        self.card.unknown.append(f"{type(self).__name__}.{name}")
        raise AssertionError(f"{name} was touched")


class Stream(Strict):
    """Works off what it is given."""

    cuda_stream = 7

    def __init__(self, card, device_index: int) -> None:
        super().__init__(card)
        self.device_index, self.busy_until = device_index, 0.0

    def give(self, seconds: float) -> None:
        self.busy_until = max(self.card.clock.now, self.busy_until) + seconds

    def query(self) -> bool:
        self.card.note("Stream.query", self.device_index)
        return self.card.clock.now >= self.busy_until

    def synchronize(self) -> None:
        self.card.waits["Stream.synchronize"] += 1


class Event(Strict):
    card: Card

    def __init__(self, enable_timing: bool) -> None:
        super().__init__(self.card)
        self.card.note("Event", self.card.current)
        self.done = float("inf")

    def record(self, stream: Stream) -> None:
        self.card.note("Event.record", stream.device_index)
        self.done = max(self.card.clock.now, stream.busy_until)

    def query(self) -> bool:
        self.card.note("Event.query", self.card.current)
        return self.card.clock.now >= self.done

    def elapsed_time(self, later: Event) -> float:
        self.card.note("Event.elapsed_time", self.card.current)
        if max(self.done, later.done) > self.card.clock.now:
            self.card.waits["Event.elapsed_time"] += 1
        return 1000 * (later.done - self.done)

    def synchronize(self) -> None:
        self.card.waits["Event.synchronize"] += 1


class Card(Strict):
    """torch.cuda"""

    def __init__(self, clock) -> None:
        super().__init__(self)
        self.clock, self.current, self.initialized = clock, 0, False
        self.calls: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.of_device: dict[int, set[str]] = defaultdict(set)
        self.unknown: list[str] = []
        self.early: list[str] = []
        self.streams = [Stream(self, device) for device in range(DEVICES)]
        self.Stream = type("Stream", (Stream,), {})
        self.Event = type("Event", (Event,), {"card": self})
        self.CUDAGraph = type("CUDAGraph", (), {"capture_begin": None, "capture_end": None})

    def note(self, name: str, device: int | None = None) -> None:
        self.calls[name] += 1
        if not self.initialized and name not in BEFORE_CONTEXT:
            self.early.append(name)
        if device is not None:
            self.of_device[device].add(name)

    def is_initialized(self) -> bool:
        self.note("is_initialized")
        return self.initialized

    def _is_compiled(self) -> bool:
        self.note("_is_compiled")
        return True

    def _lazy_init(self) -> None:
        self.note("_lazy_init")

    def device_count(self) -> int:
        self.note("device_count")
        return DEVICES

    def is_current_stream_capturing(self) -> bool:
        self.note("is_current_stream_capturing", self.current)
        return False

    def current_stream(self, device: int | None = None) -> Stream:
        device = self.current if device is None else device
        self.note("current_stream", device)
        return self.streams[device]

    def get_allocator_backend(self) -> str:
        self.note("get_allocator_backend")
        return "native"

    def memory_stats_as_nested_dict(self, device: int) -> dict[str, object]:
        self.note("memory_stats_as_nested_dict", device)
        held = {"current": 2**30 * (device == USED), "peak": 2**30 * (device == USED), "allocated": 0}
        return {name: {"all": held} for name in ("reserved_bytes", "allocated_bytes", "allocation")}

    def get_device_properties(self, device: int) -> object:
        self.note("get_device_properties", device)
        return SimpleNamespace(uuid="aaaa", name="a GPU", total_memory=80 * 2**30)

    def synchronize(self) -> None:
        self.waits["synchronize"] += 1
        self.clock.now = max(self.clock.now, self.streams[self.current].busy_until)


def tensor_of(card: Card) -> type:
    """torch.Tensor: its reads wait for the GPU."""

    def waiting(name: str) -> object:
        def wait(self, *_: object) -> None:
            card.waits[f"Tensor.{name}"] += 1

        return wait

    names = (*transfers._READS, *transfers._MOVES, "copy_")
    return type("Tensor", (), {"is_cuda": True, **{name: waiting(name) for name in names}})


class Script:
    """Batches of work are given to the second device, with a read at the end of each tick or without."""

    def __init__(self, driven, card: Card, torch, reads: bool) -> None:
        self.driven, self.card, self.torch, self.reads = driven, card, torch, reads
        self.own_waits: Counter[str] = Counter()

    def starts_cuda(self) -> None:
        self.card.initialized, self.card.current = True, USED
        self.card._lazy_init()

    def train(self, ticks: int) -> None:
        for tick in range(ticks):
            self.driven.spend(ENV, TICK_S / 4)
            self.driven.model_on(self.work)
            self.driven.spend_on(BACKWARD, self.work)
            self.driven.step(TICK_S / 4)
            if self.reads and self.card.initialized:
                self.own_waits["synchronize"] += 1
                self.card.synchronize()
            if tick % 50 == 0:
                self.driven.flush()

    def work(self) -> None:
        for _ in range(PIECES):
            self.driven.clock.advance(TICK_S / 4 / PIECES)
            if self.card.initialized:
                self.give(TICK_S * (0.25 if self.reads else 0.75) / PIECES)
        if self.torch.enabled:
            self.torch.events.append(self.torch.event("kernel", "gemm", self.driven.clock.now, TICK_S / 8))

    def give(self, seconds: float) -> None:
        stream, clock = self.card.streams[USED], self.driven.clock
        stream.give(seconds)
        clock.now = max(clock.now, stream.busy_until - QUEUED_S)


@pytest.fixture
def card(clock, monkeypatch) -> Card:
    monkeypatch.setattr(lead, "perf_counter", clock)
    return Card(clock)


@pytest.fixture
def scripted(make, driven, card):
    """`scripted(reads)`: a script under all hooks that speak to CUDA."""

    def made(reads: bool) -> Script:
        trained = make("asked", cuda=card)
        trained.torch.Tensor = tensor_of(card)
        for kind in (LeadHook, TransferHook):
            hook = kind(driven.agent)
            driven.agent.hooks.append(hook)
            hook.install_in(card)
        return Script(driven, card, trained.torch, reads)

    return made


@pytest.mark.parametrize("reads", [True, False], ids=["a loop that reads", "a loop that does not"])
def test_what_is_asked_of_cuda_in_a_training(scripted, driven, card: Card, reads: bool) -> None:
    script = scripted(reads)
    script.train(100)
    assert set(card.calls) <= BEFORE_CONTEXT
    script.starts_cuda()
    script.train(2000)

    driven.recorder.training_ended()
    driven.agent._flush_last()
    assert card.unknown == []
    assert card.early == []
    assert card.waits - script.own_waits == {"synchronize": 1}, "the one at the end of the deep window"
    assert driven.agent.failed_hooks() == []
    for device in set(card.of_device) - {USED}:
        assert card.of_device[device] <= OF_ANY_DEVICE
    assert card.current == USED

    assert driven.agent.hook("deep").window.row["state"] == "taken"
    assert driven.agent.hook("lead").row()["by"] == ("asked" if reads else "events")
    assert {used.index for used in driven.read().devices} == {USED}
    assert card.calls["Stream.query"] > 100
    assert (card.calls["Event.elapsed_time"] > 100) is not reads


def test_without_a_deep_window_nothing_is_waited_for(scripted, driven, card: Card) -> None:
    script = scripted(reads=False)
    script.starts_cuda()
    script.train(300)
    assert card.unknown == []
    assert not card.waits
    assert driven.agent.failed_hooks() == []
    assert driven.agent.hook("deep").window.row is None
    assert driven.agent.hook("lead").row() is not None
    assert card.calls["Event.elapsed_time"] > 0


def test_a_script_that_never_uses_cuda_has_no_context(scripted, driven, card: Card) -> None:
    script = scripted(reads=False)
    script.train(2000)
    driven.recorder.training_ended()
    driven.agent._flush_last()
    assert card.early == []
    assert set(card.calls) <= BEFORE_CONTEXT
    assert driven.agent.hook("deep").window.row["why"] == "the training does not use CUDA"
    assert driven.agent.failed_hooks() == []
    assert driven.read().devices == ()
