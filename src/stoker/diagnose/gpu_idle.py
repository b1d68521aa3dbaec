"""Which phase has the GPU's idle time: what the lead or a deep window says (`gpu_causes`), set against how
much of it there is by the counters.

First what is certain whatever was looked at closely, then what was seen, stalls that no sample had, and where
much is left, a deep window's gaps. What is left goes to *launching*: the phases in which work was given piece
by piece to a GPU that had none left, and no more than those phases are long. It is inferred. The rest is
nobody's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from stoker.diagnose.deep import DeviceUse
from stoker.diagnose.gpu_causes import Causes, by_gaps, by_lead, gaps_inside, with_long_gaps
from stoker.model.lead import Lead
from stoker.model.record import COMPUTE, STALLS

UNSEEN_PCT = 25.0
"""Idle time that the lead leaves unexplained: from here on a deep window's gaps are asked. Own, 2026-11: one
training of 55 on an H200 had 50, the next 20."""
SURELY_PCT = 20.0
"""Idle time that must lie in the model's phases and that nothing else tells of: from here on it is called
launching. Of 436 answers on an H200 (2026-11-15 to 19) three trainings bound by launches had 28 to 50, two
whose interpreter another thread holds 20 to 26, all others at most 18, and healthy ones at most 10. Own."""
_GIVING = COMPUTE | {"sync"}
"""Phases that give work to the GPU, or wait for it."""
STALL_MIN_PCT = 5.0
"""With less of the time than this (what makes a note of a cause) stalls may lie under what the GPU was given
before."""
LIKE_ALL_FRAC = 0.75
"""Of a stall's share of the window, in the iterations looked at: with less, its longest are not among them.
One training on an H200 had half of its compiling there (2026-11-19). Own."""


@dataclass(frozen=True, slots=True)
class IdleTime:
    """Shares of the window."""

    causes: Causes | None
    """What was told, before it was set against the counters; None: nobody tells."""
    told_pct: float
    """In all, likewise."""
    all_pct: float
    """By the counters; without them anything may be idle."""
    idle_pct: Mapping[str, float]
    """By phase: it was given nothing."""
    surely_pct: Mapping[str, float]
    """As much of it is inferred from the counters alone."""
    launching_pct: Mapping[str, float] = field(default_factory=dict)
    """By phase."""

    @property
    def left_pct(self) -> float:
        """Nobody's."""
        given = sum(self.idle_pct.values()) + sum(self.launching_pct.values())
        return max(0.0, self.all_pct - given)


def idle_time(
    phase_pct: Mapping[str, float],
    idle_pct: float | None,
    lead: Lead | None,
    deep: DeviceUse | None,
    usual_tick_s: float | None,
) -> IdleTime:
    """`idle_pct`: by the counters; None: not known, and there is only what was seen."""
    causes = by_lead(phase_pct, lead) if lead else by_gaps(phase_pct, deep, idle_pct, usual_tick_s)
    causes = with_long_gaps(causes, phase_pct, deep, usual_tick_s) if causes else None
    limit_pct = 100.0 if idle_pct is None else idle_pct
    told = _without_copies(causes.idle_pct, limit_pct) if causes else {}
    surely = _surely(phase_pct, idle_pct, causes)
    idle = _at_least(surely, _scaled(told, limit_pct), limit_pct)
    found = IdleTime(causes, sum(told.values()), limit_pct, idle, surely)
    if causes is None or idle_pct is None:
        return found
    found = _with_launching(_inferred(found, _unseen_stalls(phase_pct, found, told)))
    if lead and found.left_pct >= UNSEEN_PCT:
        gaps = gaps_inside(phase_pct, deep, idle_pct, usual_tick_s) if deep else {}
        longer = {} if gaps else _longer_stalls(phase_pct, lead, found)
        found = _with_launching(_with_gaps_inside(found, gaps) if gaps else _inferred(found, longer))
    return _surely_launching(phase_pct, found)


def _scaled(pct: Mapping[str, float], limit_pct: float) -> dict[str, float]:
    scale = min(1.0, limit_pct / max(sum(pct.values()), 1e-9))
    return {phase: one * scale for phase, one in pct.items()}


def _inferred(found: IdleTime, more: Mapping[str, float]) -> IdleTime:
    return replace(found, idle_pct={**found.idle_pct, **more}, surely_pct={**found.surely_pct, **more})


def _surely(
    phase_pct: Mapping[str, float], idle_pct: float | None, causes: Causes | None
) -> dict[str, float]:
    """A phase that takes 80 % of the time, on a GPU that idles for 50 % of it: in 30 % at least both are so.
    That holds whatever the iterations looked at closely were like; in short runs they are few. (What was seen
    to be launching stays that.)"""
    if idle_pct is None:
        return {}
    near = causes.near_pct if causes else {}
    both = {
        phase: pct + idle_pct - 100.0 - near.get(phase, 0.0)
        for phase, pct in phase_pct.items()
        if phase not in _GIVING
    }
    return _scaled({phase: pct for phase, pct in both.items() if pct > 0}, idle_pct)


def _at_least(surely: Mapping[str, float], idle: Mapping[str, float], limit_pct: float) -> dict[str, float]:
    more = {phase: max(0.0, pct - surely.get(phase, 0.0)) for phase, pct in idle.items()}
    left_pct, more_pct = limit_pct - sum(surely.values()), sum(more.values())
    scale = min(1.0, left_pct / more_pct) if more_pct > 0 else 0.0
    return {phase: surely.get(phase, 0.0) + more.get(phase, 0.0) * scale for phase in {**idle, **surely}}


def _unseen_stalls(
    phase_pct: Mapping[str, float], found: IdleTime, told: Collection[str]
) -> dict[str, float]:
    """Those that no iteration looked at closely happened to have: the GPU works off what it was given, which
    is little against them, and idles. They get what idle time is left, and no more than they are long."""
    lasting = {phase: phase_pct.get(phase, 0.0) for phase in STALLS if phase not in told}
    unseen = {phase: pct for phase, pct in lasting.items() if pct >= STALL_MIN_PCT}
    seen_pct = sum(pct for phase, pct in found.idle_pct.items() if phase not in unseen)
    given = _scaled(unseen, max(0.0, found.all_pct - seen_pct))
    return {phase: pct for phase, pct in given.items() if pct > 0}


def _longer_stalls(phase_pct: Mapping[str, float], lead: Lead, found: IdleTime) -> dict[str, float]:
    """Those in the iterations looked at closely were short, and may have been hidden under what the GPU had
    been given. The long ones are not: they get what nothing else explains, and no more than they are long."""
    seen_pct = {phase: 100 * row.host_s / lead.wall_s for phase, row in lead.phases.items() if lead.wall_s}
    idle, near = found.idle_pct, found.causes.near_pct if found.causes else {}
    room = {
        phase: max(0.0, pct - idle[phase] - near.get(phase, 0.0))
        for phase, pct in phase_pct.items()
        if phase in STALLS and phase in idle and pct >= STALL_MIN_PCT
        if seen_pct.get(phase, 0.0) < LIKE_ALL_FRAC * pct
    }
    return {phase: idle[phase] + pct for phase, pct in _scaled(room, found.left_pct).items()}


def _without_copies(idle_pct: Mapping[str, float], limit_pct: float) -> dict[str, float]:
    """No kernel runs during a blocking copy to the GPU; its copy engine does, and may be counted as busy."""
    over_pct = max(0.0, sum(idle_pct.values()) - limit_pct)
    copies_pct = idle_pct.get("h2d", 0.0)
    return {**idle_pct, "h2d": max(0.0, copies_pct - over_pct)} if copies_pct else dict(idle_pct)


def _with_gaps_inside(found: IdleTime, gaps: Mapping[str, float]) -> IdleTime:
    """In the model's phases, and where something was seen to be launched, they may be launching; elsewhere
    the host does something else."""
    causes, idle = found.causes, found.idle_pct
    if causes is None:
        return found
    launch = COMPUTE | {phase for phase, pct in causes.near_pct.items() if pct > 0}
    waits = {phase: max(idle.get(phase, 0.0), pct) for phase, pct in gaps.items() if phase not in launch}
    near = {
        phase: max(causes.near_pct.get(phase, 0.0), pct - idle.get(phase, 0.0))
        for phase, pct in gaps.items()
        if phase in launch
    }
    more = frozenset(phase for phase, pct in waits.items() if pct > idle.get(phase, 0.0))
    told = replace(causes, near_pct={**causes.near_pct, **near}, by_gaps=causes.by_gaps | more)
    return replace(found, causes=told, idle_pct=_scaled({**idle, **waits}, found.all_pct))


def _with_launching(found: IdleTime) -> IdleTime:
    """What idle time is left, no longer than the phases that launch."""
    near = found.causes.near_pct if found.causes else {}
    left_pct = max(0.0, found.all_pct - sum(found.idle_pct.values()))
    return replace(found, launching_pct=_scaled(near, left_pct))


def _surely_launching(phase_pct: Mapping[str, float], found: IdleTime) -> IdleTime:
    """What the GPU idles for longer than the thread is anywhere else, it idles in the model's phases, though
    the lead found a filled queue at their ends: the gaps are in their middle."""
    model = COMPUTE & found.causes.near_pct.keys() if found.causes else frozenset()
    elsewhere_pct = sum(pct for phase, pct in phase_pct.items() if phase not in model)
    told = {phase: found.idle_pct.get(phase, 0.0) + found.launching_pct.get(phase, 0.0) for phase in model}
    more_pct = min(found.all_pct - elsewhere_pct - sum(told.values()), found.left_pct)
    if more_pct < SURELY_PCT:
        return found
    room = _scaled({phase: max(0.0, phase_pct[phase] - pct) for phase, pct in told.items()}, more_pct)
    more = {phase: found.launching_pct.get(phase, 0.0) + pct for phase, pct in room.items()}
    return replace(found, launching_pct={**found.launching_pct, **more})
