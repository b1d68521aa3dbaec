"""SK503: ranks wait in backward for one that is late: the same one at every step, or each in its turn.

From the moments they arrive, where single ticks are known; else from the mean of their phases, which shows
only one that is late all the time.
"""

from __future__ import annotations

from statistics import median

from stoker.diagnose.causes.arrivals import Arrivals, Late, Why
from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import RankSignals, Signals
from stoker.diagnose.causes.thresholds import LATE_LINE_FRAC, STRAGGLER_COVERS, STRAGGLER_FRAC
from stoker.model.finding import Finding, Fix
from stoker.model.record import Place

CODE, NAME = "SK503", "one rank is late"
_MEET = frozenset({"backward", "sync"})
"""Where ranks wait for each other: DDP's all-reduce is in backward; a rank may also wait for its GPU."""
_DATA = Fix("data: the same cost for each rank; look at that rank's phases in `stoker why --json`")
_LENGTH = Fix("work of unequal length: bucket or pack by length, the same on every rank")
_MACHINE = Fix(
    "where the same work is slower there: that rank's machine, its clocks, its cores, its neighbours"
)
_OWN = Fix("what only that rank does (logging, saving, checks), in the line named: less often, or beside it")
_FIXES = {Why.UNEQUAL: (_LENGTH, _DATA), Why.COMPUTE: (_MACHINE, _LENGTH), Why.HOST: (_OWN, _MACHINE, _DATA)}
_USUAL = (_DATA, _LENGTH, _MACHINE)


def find(found: Signals) -> Finding | None:
    if found.arrivals is not None and found.arrivals.ranks:
        return _by_arrival(found, found.arrivals)
    return _by_means(found) if len(found.ranks) >= 2 else None


def _by_arrival(found: Signals, met: Arrivals) -> Finding | None:
    if met.late is Late.NOBODY:
        return None
    why = f" ({met.why}: {met.phase})" if met.why and met.phase else ""
    who = f"rank {met.late_rank} is late at every step" if met.late is Late.ONE else "ranks are late in turns"
    most = max(met.ranks, key=lambda rank: rank.waits_frac)
    often = max(rank.last_frac for rank in met.ranks)
    return finding(
        CODE,
        NAME,
        f"{who}{why}; the others wait for it in backward",
        met.lost_frac,
        "time of the other ranks",
        [
            number("the last one comes {} ms after the others", met.behind_ms, "ms", "host clock"),
            share(f"of its time rank {most.rank} waits, longest of all", most.waits_frac, "host clock"),
            share(f"of {met.ticks:,} ticks the same rank came last", often, "host clock"),
        ],
        "the same rank is late again in another run; on another card or node too, if it is the work",
        _FIXES.get(met.why, _USUAL) if met.why else _USUAL,
        _late_line(found, met.late_rank, met.phase, met.behind_ms),
    )


def _by_means(found: Signals) -> Finding | None:
    late = max(found.ranks, key=_own_ms)
    others = [rank for rank in found.ranks if rank is not late]
    behind_ms = _own_ms(late) - median(_own_ms(rank) for rank in others)
    waited_ms = median(_met_ms(rank) for rank in others) - _met_ms(late)
    lost = min(behind_ms, waited_ms) / late.tick_ms
    if lost < STRAGGLER_FRAC:
        return None
    phase = _phase(late, others, behind_ms)
    return finding(
        CODE,
        NAME,
        f"rank {late.rank} is late at every step{f', in {phase}' if phase else ''}; the others wait for it",
        lost,
        "time of the other ranks",
        [
            share(f"of a tick the others wait for rank {late.rank}", lost, "host clock"),
            number(f"rank {late.rank} needs {{}} ms more a tick by itself", behind_ms, "ms", "host clock"),
            number(
                f"{{}} ranks were seen, a tick takes {late.tick_ms:.3g} ms",
                len(found.ranks),
                "",
                "host clock",
            ),
        ],
        "the same rank is late again in another run; on another card or node too, if it is the work",
        _USUAL,
        _late_line(found, late.rank, phase or None, behind_ms),
    )


def _late_line(found: Signals, rank: int | None, phase: str | None, behind_ms: float) -> Place | None:
    """In which the late rank spends longer than the others, most of what it is late by; of ranks that are
    late in turns, where all of them spend that phase."""
    late = next((one for one in found.ranks if one.rank == rank), None)
    if late is None:
        line = found.top_line(phase) if phase and rank is None else None
        return line.place if line else None
    others = [one for one in found.ranks if one is not late]
    more = {
        line.place: late.line_ms(line.place.leaf) - median(one.line_ms(line.place.leaf) for one in others)
        for line in late.lines
        if line.place.leaf and line.phase not in _MEET and phase in (None, line.phase)
    }
    top = max(more, key=more.__getitem__, default=None) if others else None
    return top if top and more[top] >= LATE_LINE_FRAC * behind_ms else None


def _own_ms(rank: RankSignals) -> float:
    return rank.tick_ms - _met_ms(rank)


def _met_ms(rank: RankSignals) -> float:
    return sum(rank.phase_ms.get(phase, 0.0) for phase in _MEET)


def _phase(late: RankSignals, others: list[RankSignals], behind_ms: float) -> str:
    """What it does meanwhile, where one phase explains most of it."""
    more = {
        phase: spent - median(rank.phase_ms.get(phase, 0.0) for rank in others)
        for phase, spent in late.phase_ms.items()
        if phase not in _MEET
    }
    top = max(more, key=more.__getitem__, default="")
    return top if top and more[top] >= STRAGGLER_COVERS * behind_ms else ""


CAUSE = Cause(CODE, NAME, find)
