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
from stoker.inside.wire import BACKWARD, ENV, INFER, OTHER, THIN, TRAIN

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
        self.recorder.stage = self.recorder.usual = TRAIN
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
        else:
            play.step(play.optimizers[0], phase=OTHER)
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


def test_within_an_evaluation_nothing_is() -> None:
    play = Play(4)
    play.recorder.stage = wire.EVAL
    play.totals[INFER] = 0.0
    play.step(play.optimizers[0])
    assert told(play.recorder, play.recorder.log, 0) == 0
