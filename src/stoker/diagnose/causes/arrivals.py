"""Ranks side by side: who comes last to backward, where all of them meet, and what it did until then.

All processes of a machine share one clock, and a tick of a data-parallel training ends for all ranks within
moments: ticks are paired by their ends. A rank arrives at backward when its other phases are done; until the
last one arrives the others wait, though their backward runs, or their GPU spins in a collective.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median

from stoker.diagnose.causes.thresholds import STRAGGLER_COVERS, STRAGGLER_FRAC
from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.tick_kinds import TickKind
from stoker.model.record import PHASES, Tick

TICKS_MIN, TICKS_MAX = 20, 5_000
APART_FRAC = 0.5
"""Of a tick: ends further apart are not of the same tick."""
_BACKWARD, _OPTIM = PHASES.index("backward"), PHASES.index("optim")
_OWN = tuple(name for name in PHASES if name not in ("backward", "optim"))


class Late(StrEnum):
    NOBODY = "nobody"
    ONE = "one rank"
    TURNS = "in turns"


class Why(StrEnum):
    INPUT = "input"
    ENVIRONMENT = "environment"
    COMPUTE = "compute"
    UNEQUAL = "unequal work"
    HOST = "host code"


@dataclass(frozen=True, slots=True)
class RankArrival:
    rank: int
    waits_frac: float
    """Of its time, for ranks that arrive later."""
    last_frac: float
    """Of the ticks compared: it came last."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """At backward, over the ticks that all ranks have in the files with their phases."""

    ticks: int
    ranks: tuple[RankArrival, ...] = ()
    late: Late = Late.NOBODY
    late_rank: int | None = None
    lost_frac: float = 0.0
    """Of a tick: what would be won if nobody were later than the others are on average."""
    behind_ms: float = 0.0
    phase: str | None = None
    """In which the last one spends the time; None: in no single one."""
    why: Why | None = None
    reason: str = ""
    """Why it cannot be told."""


@dataclass(frozen=True, slots=True)
class _Met:
    """One tick of all ranks."""

    tick_s: float
    arrived_s: tuple[float, ...]
    phase_s: tuple[tuple[float, ...], ...]

    @property
    def last(self) -> int:
        return self.arrived_s.index(max(self.arrived_s))

    @property
    def behind_s(self) -> float:
        """The last one, after the middle of the others."""
        others = [at for index, at in enumerate(self.arrived_s) if index != self.last]
        return self.arrived_s[self.last] - median(others)


def arrivals(summary: Summary) -> Arrivals | None:
    """None where there is no second rank."""
    ticking = [one for one in summary.trainers if one.tick_kind is TickKind.OPTIMIZER_STEP]
    ranked = [one for one in ticking if one.record.rank is not None]
    if len(ranked) < 2:
        return None
    met = _side_by_side([_told_apart(one) for one in ranked])
    if len(met) < TICKS_MIN:
        return Arrivals(len(met), reason="too few ticks of all ranks are in the files with their phases")
    return _judged(met, [one.record.rank or 0 for one in ranked])


def _told_apart(one: Trainer) -> list[Tick]:
    """Ticks of the window whose phases are known; all there are, where it began after the first minute."""
    start_s = one.window.parts[0][0] if one.window.parts else 0.0
    known = [tick for tick in one.record.ticks if tick.phase_s is not None]
    return [tick for tick in known if tick.end_s > start_s] or known


def _side_by_side(ranks: Sequence[Sequence[Tick]]) -> list[_Met]:
    ends = [[tick.end_s for tick in ticks] for ticks in ranks]
    found = []
    for tick in ranks[0][:TICKS_MAX]:
        together = [tick, *(_nearest(tick, ticks, at) for ticks, at in zip(ranks[1:], ends[1:], strict=True))]
        if all(other is not None for other in together):
            found.append(_met([other for other in together if other is not None]))
    return found


def _nearest(tick: Tick, ticks: Sequence[Tick], ends: Sequence[float]) -> Tick | None:
    at = bisect_left(ends, tick.end_s)
    near = min(ticks[max(0, at - 1) : at + 1], key=lambda other: abs(other.end_s - tick.end_s), default=None)
    if near is None or abs(near.end_s - tick.end_s) > APART_FRAC * tick.duration_s:
        return None
    return near


def _met(ticks: Sequence[Tick]) -> _Met:
    phases = tuple(tick.phase_s or () for tick in ticks)
    arrived = (
        tick.end_s - spent[_OPTIM] - spent[_BACKWARD] for tick, spent in zip(ticks, phases, strict=True)
    )
    return _Met(fmean(tick.duration_s for tick in ticks), tuple(arrived), phases)


def _judged(met: Sequence[_Met], ranks: Sequence[int]) -> Arrivals:
    total_s = sum(one.tick_s for one in met)
    lasts = Counter(one.last for one in met)
    seen = tuple(
        RankArrival(
            rank,
            sum(max(one.arrived_s) - one.arrived_s[index] for one in met) / total_s,
            lasts[index] / len(met),
        )
        for index, rank in enumerate(ranks)
    )
    usual, times = lasts.most_common(1)[0]
    if times >= STRAGGLER_COVERS * len(met):
        those = [one for one in met if one.last == usual]
        return _one_late(those, total_s, len(met), usual, ranks, seen)
    lost_s = sum(max(one.arrived_s) - fmean(one.arrived_s) for one in met)
    if lost_s / total_s < STRAGGLER_FRAC:
        return Arrivals(len(met), seen, lost_frac=lost_s / total_s)
    phase = _phase(met)
    why = {"data": Why.INPUT, "env": Why.ENVIRONMENT}.get(phase or "", Why.UNEQUAL)
    behind_ms = 1e3 * fmean(one.behind_s for one in met)
    return Arrivals(len(met), seen, Late.TURNS, None, lost_s / total_s, behind_ms, phase, why)


def _one_late(
    those: Sequence[_Met],
    total_s: float,
    ticks: int,
    index: int,
    ranks: Sequence[int],
    seen: tuple[RankArrival, ...],
) -> Arrivals:
    lost_frac = sum(one.behind_s for one in those) / total_s
    if lost_frac < STRAGGLER_FRAC:
        return Arrivals(ticks, seen, lost_frac=lost_frac)
    phase = _phase(those)
    behind_ms = 1e3 * fmean(one.behind_s for one in those)
    return Arrivals(ticks, seen, Late.ONE, ranks[index], lost_frac, behind_ms, phase, _why(phase))


def _phase(met: Sequence[_Met]) -> str | None:
    """What the last one does longer than the others, where one phase explains most of it."""
    more = dict.fromkeys(_OWN, 0.0)
    for one in met:
        for name in _OWN:
            at = PHASES.index(name)
            others = [spent[at] for index, spent in enumerate(one.phase_s) if index != one.last]
            more[name] += one.phase_s[one.last][at] - median(others)
    top = max(more, key=more.__getitem__)
    return top if more[top] >= STRAGGLER_COVERS * sum(one.behind_s for one in met) else None


def _why(phase: str | None) -> Why | None:
    if phase is None:
        return None
    if phase in ("infer", "forward", "loss"):
        return Why.COMPUTE
    return {"data": Why.INPUT, "env": Why.ENVIRONMENT}.get(phase, Why.HOST)
