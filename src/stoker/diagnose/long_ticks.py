"""Ticks that take much longer at a fixed distance, and not by what is told apart: in the model's own phases.

Something else is done there every so many ticks. An evaluation with gradients looks like this (that of a
net that is to solve an equation needs them); so would a larger batch at times. Inputs of varying length do
not: they are long at no fixed distance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from stoker.model.record import PHASES, Tick

LONG, LONG_MIN = 2.0, 10
"""Times the median, and so many at the least. Own, 2026-11-20."""
REGULAR_FRAC = 0.8
"""Of the distances between them: the same. Own, 2026-11-20."""
LONG_FRAC = 0.15
"""Of the time, beyond what those phases usually take. Of the lab's recordings that are called healthy 0.03 at
the most, but for one with a single long tick; of the one with such an evaluation 0.33. Own, 2026-11-20."""
_MODEL = tuple(PHASES.index(name) for name in ("forward", "loss", "backward", "optim"))


@dataclass(frozen=True, slots=True)
class LongTicks:
    every: int
    frac: float
    """Of the time: what they take in the model's phases beyond the usual."""


def long_ticks(ticks: Sequence[Tick]) -> LongTicks | None:
    if len(ticks) < LONG_MIN:
        return None
    limit_s = LONG * median(tick.duration_s for tick in ticks)
    long = [number for number, tick in enumerate(ticks) if tick.duration_s > limit_s]
    if len(long) < LONG_MIN:
        return None
    distances = Counter(after - before for before, after in pairwise(long))
    every, times = distances.most_common(1)[0]
    frac = _beyond_the_usual(ticks, limit_s)
    if times < REGULAR_FRAC * distances.total() or frac < LONG_FRAC:
        return None
    return LongTicks(every, frac)


def _beyond_the_usual(ticks: Sequence[Tick], limit_s: float) -> float:
    """Of those whose phases are known."""
    known = [(tick.duration_s, _model_s(tick.phase_s)) for tick in ticks if tick.phase_s is not None]
    usual = [model_s for duration_s, model_s in known if duration_s <= limit_s]
    whole_s = sum(duration_s for duration_s, _ in known)
    if not usual or whole_s <= 0:
        return 0.0
    usual_s = median(usual)
    beyond_s = sum(max(0.0, model_s - usual_s) for duration_s, model_s in known if duration_s > limit_s)
    return beyond_s / whole_s


def _model_s(phase_s: Sequence[float]) -> float:
    return sum(phase_s[index] for index in _MODEL)
