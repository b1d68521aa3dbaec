"""Ends of stretches are told of in one loop, or one by one: the same must come of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stoker.inside import recorder as recorder_module
from stoker.inside import wire
from stoker.inside.recorder import Recorder
from stoker.inside.retelling import STOPPED_AFTER, told
from stoker.inside.wire import BACKWARD, ENV, OTHER, THIN, TRAIN

ALIKE = (
    "ticks", "tick_end", "tick_totals", "tick_counts", "tick_rows", "tick_optimizer", "others_since_tick",
    "steps", "env_steps", "env_calls", "acting_s", "symbols", "repeats", "totals", "since", "phase", "within",
    "ticks_dropped", "eval_candidate", "stage", "pending_infer_s",
)  # fmt: skip
OF_THINNING = ("pending", "start", "before", "whole", "first_of_row", "closely")


class Optimizer:
    pass


class Play:
    """A recorder in the middle of a training, and a log of what came next."""

    def __init__(self, seed: int, optimizers: int = 2) -> None:
        self.chance, self.recorder = random.Random(seed), Recorder(lambda: None)
        self.recorder.at_tick = self.recorder.at_lead = None
        self.recorder.since = self.recorder.origin = 10.0  # two of these are compared
        self.recorder.stage = self.recorder.usual = TRAIN
        self.recorder.samples, self.recorder.eval_candidate = 640, "asked in eval mode"
        self.recorder.thinning.active = True
        self.recorder.thinning.before, self.recorder.thinning.start = [0.0] * (THIN + 1), 10.0
        self.optimizers = [Optimizer() for _ in range(optimizers)]
        for optimizer in self.optimizers:
            self.recorder._new_optimizer(optimizer)
        self.now, self.totals = 10.0, [0.0] * (THIN + 1)
        self.ids = {1: 1, 2: 8}

    def env(self, number: int) -> None:
        """Measured by itself: nothing has passed since its end."""
        self.now += self.chance.uniform(1e-4, 1e-2)
        self.totals = self.totals.copy()
        self.totals[ENV] += 1e-4
        self.totals[THIN] = self.now - 10.0 - sum(self.totals[:THIN])
        self.recorder.counts[ENV] += 1
        self._noted(self.env_ends, number, self.now, self.chance.choice([0.0, 3e-4]))

    def step(self, optimizer: object, phase: int = THIN, within: int = 0) -> None:
        since, self.now = self.now, self.now + self.chance.uniform(1e-4, 1e-2)
        self.recorder.counts[BACKWARD] += 1
        key: Any = id(optimizer) if id(optimizer) in self.recorder.optimizers else optimizer
        self._noted(self.recorder.optimizer_stepped, key, since, 0.0, phase, within)
        self.totals = self.totals.copy()
        self.totals[phase] += self.now - since

    def _noted(self, ends: Any, subject: Any, since: float, waits: float, phase: int = THIN, within: int = 0):
        self.recorder.log.append((ends, subject, self.now, since, self.totals, waits, phase, within))

    @property
    def env_ends(self) -> Callable[[int], None]:
        def ends(number: int) -> None:
            self.recorder.env_stepped(self.ids.get(number, 1))

        ends.counts = self.ids  # type: ignore[attr-defined]
        return ends

    def state(self) -> dict[str, object]:
        told_of = {name: getattr(self.recorder, name) for name in ALIKE}
        return told_of | {name: getattr(self.recorder.thinning, name) for name in OF_THINNING}


def rounded(value: object) -> object:
    if isinstance(value, float):
        return pytest.approx(value)
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return {key: rounded(one) for key, one in value.items()} if isinstance(value, dict) else value


def listed(value: object) -> object:
    return [listed(one) for one in value] if isinstance(value, (list, tuple)) else value


def both_ways(
    monkeypatch: pytest.MonkeyPatch, seed: int, act: Callable[[Play], object]
) -> Iterator[tuple[str, object, object]]:
    found = []
    for at_once in (True, False):
        play = Play(seed)
        with monkeypatch.context() as patched:
            if not at_once:
                patched.setattr(recorder_module.retelling, "told", lambda _recorder, _log, at: at)
            act(play)
            play.recorder.replay()
        found.append(play.state())
    yield from ((name, found[0][name], found[1][name]) for name in found[0])


def anything(play: Play) -> None:
    """Env calls, steps of optimizers in turn, a new one now and then, stretches looked at closely."""
    for _ in range(400):
        what = play.chance.random()
        if what < 0.4:
            play.env(play.chance.choice([1, 2, 3]))
        elif what < 0.97:
            play.step(play.chance.choice(play.optimizers))
        elif what < 0.98:
            play.optimizers.append(Optimizer())
            play.step(play.optimizers[-1])
        elif what < 0.99:
            play.step(play.optimizers[0], phase=OTHER)
        else:
            play.step(play.optimizers[0], within=ENV)
        if play.chance.random() < 0.05:
            play.recorder.replay()


@pytest.mark.parametrize("seed", range(12))
def test_one_loop_tells_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for name, quickly, slowly in both_ways(monkeypatch, seed, anything):
        assert listed(quickly) == rounded(slowly), name


def test_another_optimizer_ticks_when_the_first_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(play: Play) -> None:
        first, second = play.optimizers
        for one in [first] * (STOPPED_AFTER + 50) + [second] * (STOPPED_AFTER + 20):
            play.step(one)

    ways = {name: (quickly, slowly) for name, quickly, slowly in both_ways(monkeypatch, 0, act)}
    assert ways["tick_optimizer"] == (1, 1)
    assert ways["ticks"][0] == ways["ticks"][1]


def test_another_optimizer_ticks_when_the_first_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def act(play: Play) -> None:
        for _ in range(20):
            play.step(play.optimizers[0])
        play.recorder.replay()
        del play.optimizers[0]
        for _ in range(10):
            play.step(play.optimizers[0])

    ways = {name: (quickly, slowly) for name, quickly, slowly in both_ways(monkeypatch, 0, act)}
    assert ways["tick_optimizer"] == (1, 1)
    assert ways["ticks"] == (30, 30)


def test_the_order_of_events_is_written_down_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "SEQUENCE_MAX", 20)
    for name, quickly, slowly in both_ways(monkeypatch, 1, anything):
        assert listed(quickly) == rounded(slowly), name


def test_rows_nobody_takes_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "TICKS_WAITING_MAX", 15)
    ways = {name: (quickly, slowly) for name, quickly, slowly in both_ways(monkeypatch, 2, anything)}
    assert ways["ticks_dropped"][0] == ways["ticks_dropped"][1]
    assert int(str(ways["ticks_dropped"][0])) > 0


def test_most_of_a_usual_log_is_told_at_once() -> None:
    play = Play(3)
    for _ in range(50):
        play.env(1)
        play.step(play.optimizers[0])
        play.step(play.optimizers[1])
    assert told(play.recorder, play.recorder.log, 0) == 150
    assert play.recorder.eval_candidate is None


@pytest.mark.parametrize("what", ["evaluation", "start-up", "every stretch is looked at", "new", "new env"])
def test_what_is_not_plain_is_left_to_the_other_way(what: str) -> None:
    play = Play(4)
    recorder = play.recorder
    if what == "new env":
        play._noted(play.env_ends, Optimizer(), 10.0, 0.0)
    play.step(Optimizer() if what == "new" else play.optimizers[0])
    if what == "evaluation":
        recorder.stage = wire.EVAL
    elif what == "start-up":
        recorder.usual = wire.STARTUP
    elif what == "every stretch is looked at":
        recorder.thinning.active = False
    assert told(recorder, recorder.log, 0) == 0


def test_who_looks_from_outside_while_it_is_told_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look begins within the one loop, and ends when everything seems to be as it was."""
    play = Play(5)
    recorder = play.recorder
    for _ in range(30):
        play.step(play.optimizers[0])
    found, own = [], recorder.totals

    class Slow(list):  # type: ignore[type-arg]
        """Its copy is made while the loop goes on, and the telling is over before the look compares."""

        def copy(self) -> list[float]:
            if not found:
                found.append(recorder.ticks)
                recorder.replaying = False
            return list(self)

    recorder.replaying, recorder.totals = True, Slow(own)
    recorder.ticks = 7  # half-way
    monkeypatch.setattr(recorder_module, "sleep", lambda _: setattr(recorder, "ticks", 30))
    recorder.log.clear()
    snapshot, _, _ = recorder.snapshot_from_outside()
    assert (found, snapshot.ticks) == ([7], 30)


def test_an_exception_of_a_signal_leaves_nothing_half_told() -> None:
    play = Play(6)
    for _ in range(5):
        play.step(play.optimizers[0])

    class Interrupted(list):  # type: ignore[type-arg]
        def append(self, _: object) -> None:
            raise KeyboardInterrupt

    play.recorder.tick_rows = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        play.recorder.replay()
    assert not play.recorder.replaying
    assert play.recorder.since != play.now
