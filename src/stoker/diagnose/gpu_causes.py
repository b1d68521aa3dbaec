"""Which phase left the GPU idle: from the lead (measured), or from the gaps of a deep window.

Shares of the window's wall time, before they are set against the GPU's own counters (`gpu_budget`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from stoker.diagnose.deep import DeviceUse
from stoker.model.lead import Lead
from stoker.model.record import COMPUTE


class Source(StrEnum):
    GPM = "gpm"
    NVML = "nvml"
    BOTH = "gpm+nvml"
    EVENTS = "events"
    ASKED = "asked"
    DEEP = "deep"


class Known(StrEnum):
    MEASURED = "measured"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Causes:
    """What an account of idle time says, before it is set against the counters."""

    source: Source
    known: Known
    idle_pct: Mapping[str, float]
    near_pct: Mapping[str, float]
    """Most that launching may be."""
    doubt_pct: Mapping[str, float]
    """Idle in part; how much, was not seen."""
    rest: str
    """What to say of the idle time it does not explain."""
    by_gaps: frozenset[str] = frozenset()
    """Phases of which a deep window tells that they are waits, where the lead left that open."""


def by_lead(phase_pct: Mapping[str, float], lead: Lead) -> Causes:
    seen = {phase: row for phase, row in lead.phases.items() if row.host_s > 0 and phase in phase_pct}
    doubt = {phase: phase_pct[phase] * _of(row.unknown_s, row.host_s) for phase, row in seen.items()}
    dry = [phase for phase in sorted(doubt, key=lambda phase: -doubt[phase]) if doubt[phase] >= 1]
    rest = (
        f"the GPU ran out of work somewhere in {', '.join(dry[:3])}; when, was not seen"
        if dry
        else "gaps that neither a wait of the training thread nor launching explains: copies, other streams"
    )
    return Causes(
        source=Source.ASKED if lead.by == "asked" else Source.EVENTS,
        known=Known.MEASURED,
        idle_pct={phase: phase_pct[phase] * _of(row.idle_s, row.host_s) for phase, row in seen.items()},
        near_pct={phase: phase_pct[phase] * _of(row.near_s, row.host_s) for phase, row in seen.items()},
        doubt_pct=doubt,
        rest=rest,
    )


def by_gaps(
    phase_pct: Mapping[str, float],
    deep: DeviceUse | None,
    idle_pct: float | None,
    usual_tick_s: float | None,
) -> Causes | None:
    """The profiler slows launches, not waits: a wait keeps its time per tick, and launching has what is left.
    Without ticks in the window all is in proportion."""
    if deep is None or idle_pct is None:
        return None
    if deep.ticks and usual_tick_s:
        factor = 100.0 / (deep.ticks * usual_tick_s)
    else:
        factor = idle_pct / deep.gaps.total_s if deep.gaps.total_s > 1e-9 else 0.0
    seen = {**dict.fromkeys(deep.host_s, 0.0), **deep.gaps.by_phase_s}
    spent = {phase: s * factor for phase, s in seen.items() if phase in phase_pct}
    return Causes(
        source=Source.DEEP,
        known=Known.INFERRED,
        idle_pct={phase: pct for phase, pct in spent.items() if phase not in COMPUTE},
        near_pct={phase: pct for phase, pct in spent.items() if phase in COMPUTE},
        doubt_pct={},
        rest="not seen in the deep window",
    )


def with_long_gaps(
    causes: Causes, phase_pct: Mapping[str, float], deep: DeviceUse | None, usual_tick_s: float | None
) -> Causes:
    """What may be launching is none in gaps that are too long for it: there the host does something else. The
    profiler slows launches, not that, so it keeps its time per tick."""
    if deep is None or not deep.ticks or not usual_tick_s:
        return causes
    factor = 100.0 / (deep.ticks * usual_tick_s)
    long_pct = {phase: s * factor for phase, s in deep.gaps.long_by_phase_s.items() if phase in phase_pct}
    moved = {phase: min(pct, long_pct.get(phase, 0.0)) for phase, pct in causes.near_pct.items()}
    moved = {phase: pct for phase, pct in moved.items() if pct > 0}
    return replace(
        causes,
        idle_pct={**causes.idle_pct, **{p: causes.idle_pct.get(p, 0.0) + pct for p, pct in moved.items()}},
        near_pct={phase: pct - moved.get(phase, 0.0) for phase, pct in causes.near_pct.items()},
        by_gaps=frozenset(moved),
    )


def gaps_inside(phase_pct: Mapping[str, float], deep: DeviceUse, idle_pct: float) -> dict[str, float]:
    """Idle time by phase in the proportion of a deep window's gaps. The lead sees the ends of a phase: of gaps
    in the middle a queue that is filled there tells nothing."""
    if deep.gaps.total_s <= 0:
        return {}
    gaps = {phase: s for phase, s in deep.gaps.by_phase_s.items() if phase in phase_pct}
    return {phase: min(phase_pct[phase], idle_pct * s / deep.gaps.total_s) for phase, s in gaps.items()}


def _of(part_s: float, whole_s: float) -> float:
    return min(1.0, max(0.0, part_s / whole_s))
