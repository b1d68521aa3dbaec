"""The GPUs of all ranks in one bar, and what of their busy time is waiting for a rank that comes later.

A GPU that spins in a collective is counted busy. How long its rank waits the host's clock tells (`arrivals`).
Of that as much is taken from busy as can have been spinning: no real work, and no longer than the thread is
where ranks meet, less what the GPU idled there (a collective of the CPU's leaves it idle). It is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.diagnose.causes.arrivals import Arrivals, arrivals
from stoker.diagnose.gpu_budget import GpuBudget, Kind, Part
from stoker.diagnose.gpu_causes import Known
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.summary import Summary, Trainer

_MEET = ("backward", "sync")
"""Where the thread is while its GPU spins: DDP's all-reduce is in backward; a loop that reads its loss waits
for the GPU there."""
_SPINS = (Kind.LITTLE, Kind.BUSY)
"""A collective keeps few multiprocessors at work."""
_ORDER = tuple(Kind)
NO_RANKS = "the processes have no ranks"
NOT_ALONE = "its GPU is not its own, so busy is of all together"


@dataclass(frozen=True, slots=True)
class RankGpu:
    """The GPU of one rank. `parts` and `waiting_pct` add up to 100."""

    rank: int | None
    pid: int
    use: GpuUse
    parts: tuple[Part, ...]
    """Of its budget, busy without the waiting."""
    waiting_pct: float | None
    """None: not known, see `reason`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Together:
    """The mean over the ranks."""

    ranks: tuple[RankGpu, ...]
    parts: tuple[Part, ...]
    waiting_pct: float | None
    reason: str = ""
    """Why it is not known how long ranks wait."""


def together(summary: Summary) -> Together | None:
    """None with fewer than two processes that train on GPUs of their own."""
    ranks = rank_gpus(summary)
    if len({_card(one) for one in ranks}) < 2:
        return None
    waits = [one.waiting_pct for one in ranks if one.waiting_pct is not None]
    reason = next((one.reason for one in ranks if one.waiting_pct is None), "")
    mean = None if reason else sum(waits) / len(ranks)
    if reason:  # the mean of some of them would be no mean
        ranks = tuple(_as_counted(one) for one in ranks)
    return Together(ranks, _mean(ranks), mean, reason)


def rank_gpus(summary: Summary) -> tuple[RankGpu, ...]:
    met = arrivals(summary)
    return tuple(_rank_gpu(one, use, met) for one in summary.trainers if (use := one.gpus.main) is not None)


def rank_gpu(summary: Summary, trainer: Trainer) -> RankGpu | None:
    """Of one training process."""
    use = trainer.gpus.main
    return None if use is None else _rank_gpu(trainer, use, arrivals(summary))


def _rank_gpu(trainer: Trainer, use: GpuUse, met: Arrivals | None) -> RankGpu:
    rank, budget = trainer.record.rank, use.budget
    reason = _not_known(use, met)
    waits = {one.rank: one.waits_frac for one in met.ranks} if met else {}
    if reason or rank not in waits:
        return RankGpu(rank, trainer.record.pid, use, budget.parts, None, reason or NO_RANKS)
    spins_pct = _spins_pct(budget, trainer.phase_pct, 100 * waits[rank])
    return RankGpu(rank, trainer.record.pid, use, _without(budget.parts, spins_pct), spins_pct)


def _not_known(use: GpuUse, met: Arrivals | None) -> str:
    if met is None or not met.ranks:
        return met.reason if met else NO_RANKS
    if use.budget.busy_pct is None:
        return "how busy its GPU is was not counted"
    return "" if use.alone else NOT_ALONE


def _spins_pct(budget: GpuBudget, phase_pct: Mapping[str, float], waits_pct: float) -> float:
    idle_pct = {cause.phase: cause.caused_pct or 0.0 for cause in budget.phases}
    works_pct = sum(phase_pct.get(phase, 0.0) - idle_pct.get(phase, 0.0) for phase in _MEET)
    little_pct = sum(part.pct for part in budget.parts if part.kind in _SPINS)
    return max(0.0, min(waits_pct, works_pct, little_pct))


def _without(parts: Sequence[Part], spins_pct: float) -> tuple[Part, ...]:
    """There is one part at most that may be spinning."""
    less = (replace(part, pct=part.pct - spins_pct) if part.kind in _SPINS else part for part in parts)
    return tuple(part for part in less if part.pct > 0)


def _as_counted(one: RankGpu) -> RankGpu:
    return replace(one, parts=one.use.budget.parts, waiting_pct=None)


def _card(one: RankGpu) -> object:
    view, use = one.use.view, one.use
    return view.gpu if view else (one.pid, use.index)


def _mean(ranks: Sequence[RankGpu]) -> tuple[Part, ...]:
    by_name: dict[tuple[Kind, str], list[Part]] = {}
    for part in (part for one in ranks for part in one.parts):
        by_name.setdefault((part.kind, part.phase), []).append(part)
    means = [_one(same, len(ranks)) for same in by_name.values()]
    return tuple(sorted(means, key=lambda part: (_ORDER.index(part.kind), -part.pct)))


def _one(same: Sequence[Part], ranks: int) -> Part:
    """As sure as the least sure of them."""
    known, sources = {part.known for part in same}, {part.source for part in same}
    pct = sum(part.pct for part in same) / ranks
    surely = same[0].known if len(known) == 1 else Known.INFERRED
    return replace(same[0], pct=pct, known=surely, source=same[0].source if len(sources) == 1 else None)
