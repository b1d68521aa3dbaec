"""SK503: one rank is late at every step, and the others wait for it in backward."""

from __future__ import annotations

from statistics import median

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import RankSignals, Signals
from stoker.diagnose.causes.thresholds import STRAGGLER_COVERS, STRAGGLER_FRAC
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK503", "one rank is late"
_MEET = frozenset({"backward", "sync"})
"""Where ranks wait for each other: DDP's all-reduce is in backward; a rank may also wait for its GPU."""
_FIXES = (
    Fix("data: the same cost for each rank; look at that rank's phases in `stoker why --json`"),
    Fix("work of unequal length: bucket or pack by length, the same on every rank"),
    Fix("the same on all ranks of a node but this one: its GPU's clocks, its cores, its neighbours"),
)


def find(found: Signals) -> Finding | None:
    if len(found.ranks) < 2:
        return None
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
        _FIXES,
    )


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
