"""100 % of a window's wall time on one GPU, each second in one place: real work, busy with little work, idle
by cause, unknown. Pure arithmetic on what was recorded.

How much of the time the GPU is busy the counters say; which phase left it idle the lead says (`gpu_causes`).
What idle time is left goes to *launching*: the phases in which work was given piece by piece to a GPU that
had none left, and no more than those phases are long. It is inferred. The rest is unknown. Without counters
only what the lead measured is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from stoker.diagnose.deep import DeviceUse, usual_busy_frac, without_behind
from stoker.diagnose.gpu_causes import (
    Causes,
    Known,
    Source,
    by_gaps,
    by_lead,
    gaps_inside,
    with_long_gaps,
)
from stoker.diagnose.gpu_view import GpuView
from stoker.model.lead import Lead
from stoker.model.record import COMPUTE

CONTRADICTION_PCT = 3.0
"""The figures are within as many points of each other where all is well."""
UNSEEN_PCT = 25.0
"""Idle time that the lead leaves unexplained: from here on a deep window's gaps are asked. Own, 2026-11: one
training of 55 on an H200 had 50, the next 20."""
SURELY_PCT = 20.0
"""Idle time that must lie in the model's phases and that nothing else tells of: from here on it is called
launching. Of 436 answers on an H200 (2026-11-15 to 19) three trainings bound by launches had 28 to 50, two
whose interpreter another thread holds 20 to 26, all others at most 18, and healthy ones at most 10. Own."""
_GIVING = COMPUTE | {"sync"}
"""Phases that give work to the GPU, or wait for it."""
_STALLS = ("save", "gc", "compile")
STALL_MIN_PCT = 5.0
"""Phases that come seldom, last long, and give the GPU nothing. With less of the time than this (what makes a
note of a cause) they may lie under what the GPU was given before."""
LIKE_ALL_FRAC = 0.75
"""Of a stall's share of the window, in the iterations looked at: with less, its longest are not among them.
One training on an H200 had half of its compiling there (2026-11-19). Own."""
HIDDEN_FRAC = 0.05
"""A wait that costs the GPU less than this share of itself lies under the GPU's work."""


class Kind(StrEnum):
    REAL = "real work"
    LITTLE = "busy with little work"
    BUSY = "busy"
    """Where nobody knows how much of it is work."""
    IDLE = "idle"
    LAUNCHING = "launching"
    UNKNOWN_IDLE = "idle, cause unknown"
    UNKNOWN = "busy or idle, unknown"


@dataclass(frozen=True, slots=True)
class Part:
    kind: Kind
    pct: float
    known: Known
    source: Source | None = None
    phase: str = ""
    """Of idle time: where the training thread was."""


@dataclass(frozen=True, slots=True)
class PhaseCause:
    """One phase of the training thread, and the GPU's idle time it caused. All in % of the window."""

    phase: str
    host_pct: float
    idle_pct: float | None
    """Nothing was given to the GPU; None: not known."""
    launching_pct: float
    """Given in pieces too small, one after another: inferred."""
    known: Known
    source: Source | None
    doubt_pct: float = 0.0
    """It may be so much more: the GPU ran dry somewhere in this phase."""

    @property
    def caused_pct(self) -> float | None:
        return None if self.idle_pct is None else self.idle_pct + self.launching_pct

    @property
    def hidden(self) -> bool:
        """A wait under which the GPU works: no cause of anything."""
        waits = self.phase not in COMPUTE and self.phase != "sync"
        most_pct = None if self.caused_pct is None else self.caused_pct + self.doubt_pct
        return waits and most_pct is not None and most_pct < HIDDEN_FRAC * self.host_pct


@dataclass(frozen=True, slots=True)
class GpuBudget:
    busy_pct: float | None
    busy_source: Source | None
    real_work_pct: float | None
    real_work_source: Source | None
    phases: tuple[PhaseCause, ...]
    """All that took time of the host."""
    idle_source: Source | None
    launching_pct: float | None
    """None: not known, since the idle total is not."""
    unknown_idle_pct: float | None
    unknown_reason: str
    unknown_pct: float
    """Nobody knows whether it was busy."""
    told_idle_pct: float | None
    """Idle time by phase in all, before it was set against the counters."""
    contradiction: str = ""
    own_launches: bool = False
    """A deep window found the user's own code launching, and hardly a gap in which it does something else."""

    @property
    def idle_pct(self) -> float | None:
        return None if self.busy_pct is None else 100.0 - self.busy_pct

    @property
    def idle_by_phase_pct(self) -> dict[str, float | None]:
        return {cause.phase: cause.idle_pct for cause in self.phases}

    @property
    def parts(self) -> tuple[Part, ...]:
        """The bar, from real work to unknown; they add up to 100."""
        return tuple(part for part in (*self._busy_parts(), *self._idle_parts()) if part.pct > 0)

    def _busy_parts(self) -> list[Part]:
        if self.busy_pct is None:
            return []
        if self.real_work_pct is None:
            return [Part(Kind.BUSY, self.busy_pct, Known.MEASURED, self.busy_source)]
        estimated = self.real_work_source is Source.DEEP
        known = Known.INFERRED if estimated else Known.MEASURED
        little = Part(Kind.LITTLE, self.busy_pct - self.real_work_pct, known, self.busy_source)
        return [Part(Kind.REAL, self.real_work_pct, known, self.real_work_source), little]

    def _idle_parts(self) -> list[Part]:
        causes = sorted(self.phases, key=lambda cause: -(cause.idle_pct or 0.0))
        parts = [Part(Kind.IDLE, c.idle_pct or 0.0, c.known, c.source, c.phase) for c in causes]
        parts.append(Part(Kind.LAUNCHING, self.launching_pct or 0.0, Known.INFERRED, self.idle_source))
        parts.append(Part(Kind.UNKNOWN_IDLE, self.unknown_idle_pct or 0.0, Known.UNKNOWN))
        return [*parts, Part(Kind.UNKNOWN, self.unknown_pct, Known.UNKNOWN)]


def gpu_budget(
    phase_pct: Mapping[str, float],
    view: GpuView | None,
    lead: Lead | None,
    deep: DeviceUse | None = None,
    usual_tick_s: float | None = None,
    no_lead: str = "",
) -> GpuBudget:
    """`phase_pct`: the training thread's window; `no_lead`: why there is none."""
    busy_pct, busy_source = _busy(view, deep, usual_tick_s)
    real_pct, real_source = _real_work(busy_pct, view, deep, usual_tick_s)
    idle_pct = None if busy_pct is None else 100.0 - busy_pct
    causes = by_lead(phase_pct, lead) if lead else by_gaps(phase_pct, deep, idle_pct, usual_tick_s)
    causes = with_long_gaps(causes, phase_pct, deep, usual_tick_s) if causes else None
    limit_pct = 100.0 if idle_pct is None else idle_pct
    told = _without_copies(causes.idle_pct, limit_pct) if causes else {}
    told_pct = sum(told.values())
    scale = min(1.0, limit_pct / told_pct) if told_pct > 0 else 1.0
    surely = _surely(phase_pct, idle_pct, causes)
    idle = _at_least(surely, {phase: pct * scale for phase, pct in told.items()}, limit_pct)
    stalls = _stalls(phase_pct, idle, told, limit_pct) if causes and idle_pct is not None else {}
    idle, surely = {**idle, **stalls}, {**surely, **stalls}
    left_pct = max(0.0, limit_pct - sum(idle.values()))
    launching = _launching(causes, 0.0 if idle_pct is None else left_pct)
    unseen_pct = left_pct - sum(launching.values())
    if lead and causes and idle_pct is not None and unseen_pct >= UNSEEN_PCT:
        gaps = gaps_inside(phase_pct, deep, idle_pct, usual_tick_s) if deep else {}
        if gaps:
            causes, idle = _with_gaps_inside(causes, idle, gaps, limit_pct)
        else:
            longer = _longer_stalls(phase_pct, lead, idle, unseen_pct)
            idle, surely = {**idle, **longer}, {**surely, **longer}
        left_pct = max(0.0, limit_pct - sum(idle.values()))
        launching = _launching(causes, left_pct)
    if causes and idle_pct is not None:
        seen = COMPUTE & causes.near_pct.keys()
        launching = _surely_launching(phase_pct, seen, left_pct, idle_pct, idle, launching)
    unknown_pct = max(0.0, left_pct - sum(launching.values()))
    return GpuBudget(
        busy_pct=busy_pct,
        busy_source=busy_source,
        real_work_pct=real_pct,
        real_work_source=real_source,
        phases=_phases(phase_pct, causes, idle, launching, unknown_pct, surely, busy_source),
        idle_source=causes.source if causes else None,
        launching_pct=None if idle_pct is None else sum(launching.values()),
        unknown_idle_pct=None if idle_pct is None else unknown_pct,
        unknown_reason=causes.rest if causes else no_lead,
        unknown_pct=unknown_pct if idle_pct is None else 0.0,
        told_idle_pct=told_pct if causes else None,
        contradiction=_contradiction(told_pct, idle_pct, causes),
        own_launches=causes is not None and causes.own_launches,
    )


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
    sure = {phase: pct for phase, pct in both.items() if pct > 0}
    scale = min(1.0, idle_pct / max(sum(sure.values()), 1e-9))  # shares that add up to more than 100
    return {phase: pct * scale for phase, pct in sure.items()}


def _at_least(surely: Mapping[str, float], idle: Mapping[str, float], limit_pct: float) -> dict[str, float]:
    more = {phase: max(0.0, pct - surely.get(phase, 0.0)) for phase, pct in idle.items()}
    left_pct, more_pct = limit_pct - sum(surely.values()), sum(more.values())
    scale = min(1.0, left_pct / more_pct) if more_pct > 0 else 0.0
    return {phase: surely.get(phase, 0.0) + more.get(phase, 0.0) * scale for phase in {**idle, **surely}}


def _stalls(
    phase_pct: Mapping[str, float], idle: Mapping[str, float], told: Collection[str], limit_pct: float
) -> dict[str, float]:
    """Those that no iteration looked at closely happened to have: the GPU works off what it was given, which
    is little against them, and idles. They get what idle time is left, and no more than they are long."""
    lasting = {phase: phase_pct.get(phase, 0.0) for phase in _STALLS if phase not in told}
    unseen = {phase: pct for phase, pct in lasting.items() if pct >= STALL_MIN_PCT}
    seen_pct = sum(pct for phase, pct in idle.items() if phase not in unseen)
    left_pct, all_pct = max(0.0, limit_pct - seen_pct), sum(unseen.values())
    scale = min(1.0, left_pct / all_pct) if all_pct > 0 else 0.0
    return {phase: pct * scale for phase, pct in unseen.items() if pct * scale > 0}


def _longer_stalls(
    phase_pct: Mapping[str, float], lead: Lead, idle: Mapping[str, float], left_pct: float
) -> dict[str, float]:
    """Those in the iterations looked at closely were short, and may have been hidden under what the GPU had
    been given. The long ones are not: they get what nothing else explains, and no more than they are long."""
    seen_pct = {phase: 100 * row.host_s / lead.wall_s for phase, row in lead.phases.items() if lead.wall_s}
    room = {
        phase: max(0.0, pct - idle[phase])
        for phase, pct in phase_pct.items()
        if phase in _STALLS and phase in idle and pct >= STALL_MIN_PCT
        if seen_pct.get(phase, 0.0) < LIKE_ALL_FRAC * pct
    }
    scale = min(1.0, left_pct / max(sum(room.values()), 1e-9))
    return {phase: idle[phase] + pct * scale for phase, pct in room.items()}


def _without_copies(idle_pct: Mapping[str, float], limit_pct: float) -> dict[str, float]:
    """No kernel runs during a blocking copy to the GPU; its copy engine does, and may be counted as busy."""
    over_pct = max(0.0, sum(idle_pct.values()) - limit_pct)
    copies_pct = idle_pct.get("h2d", 0.0)
    return {**idle_pct, "h2d": max(0.0, copies_pct - over_pct)} if copies_pct else dict(idle_pct)


def _busy(
    view: GpuView | None, deep: DeviceUse | None, usual_tick_s: float | None
) -> tuple[float | None, Source | None]:
    if view is not None and view.busy_pct is not None:
        source = next((one for one in Source if one == view.busy_source), None)
        counted_pct = _share(view.busy_pct)
        less = without_behind(counted_pct / 100, deep, usual_tick_s) if deep else None
        return counted_pct if less is None else 100 * less, source
    usual = usual_busy_frac(deep, usual_tick_s) if deep else None
    return (None, None) if usual is None else (_share(100 * usual), Source.DEEP)


def _real_work(
    busy_pct: float | None, view: GpuView | None, deep: DeviceUse | None, usual_tick_s: float | None
) -> tuple[float | None, Source | None]:
    """No more than busy: the two are counted by different clocks."""
    if busy_pct is None:
        return None, None
    if view is not None and view.sm_active_pct is not None:
        return min(busy_pct, _share(view.sm_active_pct)), Source.GPM
    if deep is None or deep.real_work.frac is None or deep.busy_frac <= 0:
        return None, None
    usual = usual_busy_frac(deep, usual_tick_s)
    usual_pct = busy_pct if usual is None else 100 * usual
    return min(busy_pct, _share(usual_pct * deep.real_work.frac / deep.busy_frac)), Source.DEEP


def _with_gaps_inside(
    causes: Causes, idle: Mapping[str, float], gaps: Mapping[str, float], limit_pct: float
) -> tuple[Causes, dict[str, float]]:
    """In the model's phases, and where something was seen to be launched, they may be launching; elsewhere
    the host does something else."""
    launch = COMPUTE | {phase for phase, pct in causes.near_pct.items() if pct > 0}
    waits = {phase: max(idle.get(phase, 0.0), pct) for phase, pct in gaps.items() if phase not in launch}
    scale = min(1.0, limit_pct / max(sum({**idle, **waits}.values()), 1e-9))
    near = {
        phase: max(causes.near_pct.get(phase, 0.0), pct - idle.get(phase, 0.0))
        for phase, pct in gaps.items()
        if phase in launch
    }
    more = frozenset(phase for phase, pct in waits.items() if pct > idle.get(phase, 0.0))
    told = replace(causes, near_pct={**causes.near_pct, **near}, by_gaps=causes.by_gaps | more)
    return told, {phase: pct * scale for phase, pct in {**idle, **waits}.items()}


def _launching(causes: Causes | None, left_pct: float) -> dict[str, float]:
    near_pct = sum(causes.near_pct.values()) if causes else 0.0
    if causes is None or near_pct <= 0:
        return {}
    share = min(1.0, left_pct / near_pct)
    return {phase: pct * share for phase, pct in causes.near_pct.items()}


def _surely_launching(
    phase_pct: Mapping[str, float],
    model: Collection[str],
    left_pct: float,
    idle_pct: float,
    idle: Mapping[str, float],
    launching: dict[str, float],
) -> dict[str, float]:
    """What the GPU idles for longer than the thread is anywhere else, it idles in the model's phases, though
    the lead found a filled queue at their ends: the gaps are in their middle."""
    elsewhere_pct = sum(pct for phase, pct in phase_pct.items() if phase not in model)
    told = {phase: idle.get(phase, 0.0) + launching.get(phase, 0.0) for phase in model}
    more_pct = min(idle_pct - elsewhere_pct - sum(told.values()), left_pct - sum(launching.values()))
    room = {phase: max(0.0, phase_pct[phase] - pct) for phase, pct in told.items()}
    if more_pct < SURELY_PCT or not any(room.values()):
        return launching
    part = min(1.0, more_pct / sum(room.values()))
    return {**launching, **{phase: launching.get(phase, 0.0) + pct * part for phase, pct in room.items()}}


def _phases(
    phase_pct: Mapping[str, float],
    causes: Causes | None,
    idle: Mapping[str, float],
    launching: Mapping[str, float],
    unknown_pct: float,
    surely: Mapping[str, float],
    counters: Source | None,
) -> tuple[PhaseCause, ...]:
    """A phase of which the account has nothing is not known to be harmless."""
    rows = []
    for phase, host_pct in phase_pct.items():
        told = phase in idle or phase in launching
        counted = phase in surely and idle[phase] <= surely[phase]
        gaps = causes is not None and phase in causes.by_gaps
        if host_pct <= 0 and not idle.get(phase):
            continue
        rows.append(
            PhaseCause(
                phase=phase,
                host_pct=host_pct,
                idle_pct=idle.get(phase, 0.0) if told else None,
                launching_pct=launching.get(phase, 0.0),
                known=_known(causes if told else None, counted or gaps),
                source=counters
                if counted
                else Source.DEEP
                if gaps
                else causes.source
                if told and causes
                else None,
                doubt_pct=min(unknown_pct, causes.doubt_pct.get(phase, 0.0)) if causes else 0.0,
            )
        )
    return tuple(sorted(rows, key=lambda row: (-(row.caused_pct or 0.0), -row.host_pct)))


def _known(causes: Causes | None, inferred: bool) -> Known:
    if inferred:
        return Known.INFERRED
    return causes.known if causes else Known.UNKNOWN


def _contradiction(told_pct: float, idle_pct: float | None, causes: Causes | None) -> str:
    if causes is None or idle_pct is None or told_pct <= idle_pct + CONTRADICTION_PCT:
        return ""
    if causes.source is Source.DEEP:
        return (
            f"the deep window saw the GPU idle for {told_pct:.0f} %, the counters for {idle_pct:.0f} % of "
            "the time: that second was not like the others; its causes are scaled to the counters' figure"
        )
    return (
        f"the training gave the GPU nothing to do for {told_pct:.0f} % of the time, yet it is counted idle "
        f"for {idle_pct:.0f} % only: another process computes there, or another stream of this one. The idle "
        "time by phase is scaled down to what was counted"
    )


def _share(pct: float) -> float:
    return min(100.0, max(0.0, pct))
