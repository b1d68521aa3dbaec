"""On and off in turns of a few ticks, in one process, without disturbing the interpreter.

A training's speed wanders by ten per cent from second to second on a shared machine, and longer blocks do not
help: the ratio of two neighbouring blocks of 1, 20 or 500 ticks scatters by 6, 5 and 7 % (measured, 2026-11).
So the turns have to be short and many. Patching a class each time would not do: the interpreter then forgets
what it has learnt about it, for some fifty ticks. Here every class that is patched has two heirs, one as
Stoker left it, one with torch's own methods put back, and a turn changes the class of the loop's objects
(modules, optimizers, environments, loaders: some twenty assignments). What Stoker put into modules is
exchanged there: that disturbs nothing.

The looking thread, which wakes up every tenth of a second, cannot be switched that fast. It sleeps meanwhile,
and is measured by itself with the hooks on: the ticks that one of its looks falls into, against those around.
"""

from __future__ import annotations

import bisect
import gc
import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

Estimate = dict[str, float]


class Turns:
    """Hooks on or off for `objects()`, which lists what the loop holds by now."""

    def __init__(self, agent: Any, objects: Callable[[], Iterable[object]]) -> None:
        import torch

        self.agent, self.objects = agent, objects
        self.patches = [patch for hook in agent.hooks for patch in hook.patches]
        self.patches += [
            patch for hook in agent.hooks if hasattr(hook, "class_patches") for patch in hook.class_patches()
        ]
        self.heirs: dict[type, tuple[type, type]] = {}
        profiler = torch.autograd.profiler
        off, on = self._heirs(profiler.record_function)
        self.places = [(profiler, "record_function", off, on)]
        self.places += [patch for patch in self.patches if isinstance(patch[0], ModuleType)]
        self.collector = agent.hook("gc").noting

    def _heirs(self, kind: type) -> tuple[type, type]:
        if kind not in self.heirs:
            off, on = (_heir(kind) for _ in range(2))
            for owner, name, original, replacement in self.patches:
                if isinstance(owner, type) and issubclass(kind, owner) and getattr(kind, name) is replacement:
                    setattr(off, name, original)
            step = vars(kind).get("step")
            if hasattr(step, "hooked") and hasattr(step, "__wrapped__"):
                off.step = step.__wrapped__  # an optimizer's: wrapped as torch decorated it
            self.heirs[kind] = self.heirs[off] = self.heirs[on] = off, on
        return self.heirs[kind]

    def turn(self, on: bool) -> None:
        for thing in self.objects():
            object.__setattr__(thing, "__class__", self._heirs(type(thing))[on])
        for owner, name, original, replacement in self.places:
            setattr(owner, name, replacement if on else original)
        if self.collector in gc.callbacks:
            gc.callbacks.remove(self.collector)
        if on:
            gc.callbacks.append(self.collector)


def hooked(loop: Any) -> list[object]:
    """What hooks are about in a loop of actor and critic: optimizers, wrappers of the env, modules."""
    held: list[object] = [loop.actor_optimizer, loop.critic_optimizer]
    env = loop.env
    while env is not None:
        held.append(env)
        env = vars(env).get("env")
    return held + [part for net in (loop.actor, loop.critic, loop.target) for part in net.modules()]


def _heir(kind: type) -> Any:
    return type(kind.__name__, (kind,), {})


def in_turns(
    tick: Callable[[], None], turns: Turns, pairs: int, ticks: int, settle: int
) -> list[tuple[float, float]]:
    """(wall, cpu): log ratios on over off of neighbouring turns, in random order within each pair."""
    recorder, chance, ratios = turns.agent.recorder, random.Random(1), []
    told = 0.0
    for _ in range(pairs):
        seen = {}
        first = chance.random() < 0.5
        for on in (first, not first):
            turns.turn(on)
            for _ in range(settle):
                tick()
            seen[on] = timed(tick, ticks)
            if on:
                told += seen[on][0] * (settle + ticks) / ticks
        if told > 1.0:  # what the looking thread asks of the training thread once a second
            told = 0.0
            recorder.take_tick_rows()
            recorder.want_shapes = [True, True]
            recorder.thinning.want_settle = recorder.thinning.active
        ratios.append((math.log(seen[True][0] / seen[False][0]), math.log(seen[True][1] / seen[False][1])))
    turns.turn(True)
    return ratios


def timed(tick: Callable[[], None], ticks: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(ticks):
        tick()
    return time.perf_counter() - wall, time.process_time() - cpu


def pseudo_median(ratios: list[float]) -> Estimate:
    """Hodges and Lehmann's: the median of the means of all pairs, with the interval that belongs to it
    (Wilcoxon's signed ranks, normal approximation). A neighbour on the machine makes some ratios wild, in
    both directions alike since the order is drawn: a mean would follow the wild ones, a plain median throws
    away a third of the precision."""
    count = len(ratios)
    means = sorted((a + b) / 2 for i, a in enumerate(ratios) for b in ratios[i:])
    spread = 1.96 * math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    low = max(0, round(len(means) / 2 - spread))
    high = min(len(means) - 1, round(len(means) / 2 + spread))
    return percent(statistics.median(means), means[low], means[high])


def percent(middle: float, low: float, high: float) -> Estimate:
    names = ("cost_pct", "low_pct", "high_pct")
    return {name: 100 * math.expm1(value) for name, value in zip(names, (middle, low, high), strict=True)}


def added(one: Estimate, other: Estimate) -> Estimate:
    """Two independent parts: their half intervals add up as the sides of a right angle do."""
    cost = one["cost_pct"] + other["cost_pct"]
    below, above = (
        math.hypot(*(part[bound] - part["cost_pct"] for part in (one, other)))
        for bound in ("low_pct", "high_pct")
    )
    return {"cost_pct": cost, "low_pct": cost - below, "high_pct": cost + above}


# -- the looking thread ------------------------------------------------------------------------------------

AROUND = 10
"""Ticks before and after, against which those with a look in them are held."""


class Beats:
    """When the looking thread was awake: from the moment it wants to be until it sleeps again."""

    def __init__(self, pulse: Any) -> None:
        self.pulse = pulse
        self.awake: list[tuple[float, float]] = []
        self.woke: float | None = None
        self.sleep = pulse._sleep_before
        pulse._sleep_before = self.sleep_before

    def sleep_before(self, moment: float, shared: bool) -> None:
        if self.woke is not None:
            self.awake.append((self.woke, time.perf_counter()))
        self.woke = moment - self.early_s()
        self.sleep(moment, shared)

    def early_s(self) -> float:
        """As in the pulse itself."""
        module = sys.modules[type(self.pulse).__module__]
        return float(min(module.NAP_MAX_S, module.NAP_MIN_S + 1.2 * self.pulse.late_s))

    def end(self) -> None:
        del self.pulse._sleep_before


def looked_at(tick: Callable[[], None], pulse: Any, seconds: float) -> tuple[list[float], float, float]:
    """What each time awake added to the training thread's wall time (s), the mean length of a tick (s), and
    how many times awake there are per tick."""
    beats, ends = Beats(pulse), [time.perf_counter()]
    while ends[-1] - ends[0] < seconds:
        tick()
        ends.append(time.perf_counter())
    beats.end()
    return added_by(beats.awake, ends)


def added_by(looks: list[tuple[float, float]], ends: list[float]) -> tuple[list[float], float, float]:
    """The same of looks from somewhen to somewhen, and the ends of ticks."""
    lengths = [late - early for early, late in itertools.pairwise(ends)]
    hit = [inside for start, end in looks if (inside := hits(ends, start, end))]
    every = {index for inside in hit for index in inside}
    added_s = []
    for inside in hit:
        around = (*range(inside[0] - AROUND, inside[0]), *range(inside[-1] + 1, inside[-1] + 1 + AROUND))
        near = [lengths[index] for index in around if 0 <= index < len(lengths) and index not in every]
        if len(near) >= AROUND:
            added_s.append(sum(lengths[index] for index in inside) - len(inside) * statistics.fmean(near))
    return added_s, statistics.fmean(lengths), len(hit) / len(lengths)


def hits(ends: list[float], start: float, end: float) -> list[int]:
    first = max(0, bisect.bisect_right(ends, start) - 1)
    last = min(len(ends) - 2, bisect.bisect_left(ends, end) - 1)
    return list(range(first, last + 1))


def mean_of(added_s: list[float], tick_s: float, per_tick: float) -> Estimate:
    """A mean, since a look that also writes adds more than others."""
    mean, half = statistics.fmean(added_s), 1.96 * statistics.stdev(added_s) / math.sqrt(len(added_s))
    scale = 100 * per_tick / tick_s
    names = ("cost_pct", "low_pct", "high_pct")
    return dict(zip(names, (scale * mean, scale * (mean - half), scale * (mean + half)), strict=True))


def looks_in_a_minute(pulse: ModuleType) -> int:
    """The first one; see Pulse._limit."""
    looks, at_s = 0, 0.0
    while at_s < 60.0:
        looks += 1
        at_s += _gap_s(pulse, looks)
    return looks


def looks_later(pulse: ModuleType) -> float:
    """In a minute, once they come as seldom as they ever will."""
    return 60.0 / _gap_s(pulse, pulse.RARER_AFTER[-1])


def _gap_s(pulse: ModuleType, looks: int) -> float:
    """The mean of Pulse._gap_s: what is drawn has a mean of 0.5 intervals, and a second is the most."""
    interval_s = pulse.SAMPLE_S * 2 ** sum(looks >= many for many in pulse.RARER_AFTER)
    least_s, drawn_s = 0.3 * interval_s, 0.5 * interval_s
    return pulse.NAP_MAX_S + least_s + drawn_s * (1 - math.exp((least_s - 1.0) / drawn_s))
