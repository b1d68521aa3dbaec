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

SHORT_GAPS_FRAC = 0.8
"""Of the gaps in the user's own code, none longer than a launch may take (deep.LONG_GAP_S): loops of small
kernels had 0.98, code that computes 0.01 to 0.13 (H200, 2026-11-18). Own."""


GAPS_SEEN_FRAC = 0.8
"""Of the idle time a tick has by the counters: as much of it a deep window has to have seen. Own, 2026-11."""


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
    own_launches: bool = False
    """A deep window found short gaps in the user's own code, and hardly a long one."""


def by_lead(phase_pct: Mapping[str, float], lead: Lead) -> Causes:
    seen = {phase: row for phase, row in lead.phases.items() if row.host_s > 0 and phase in phase_pct}
    doubt = {phase: phase_pct[phase] * _of(row.unknown_s, row.host_s) for phase, row in seen.items()}
    dry = [phase for phase in sorted(doubt, key=lambda phase: -doubt[phase]) if doubt[phase] >= 1]
    rest = (
        f"it ran dry somewhere in {', '.join(dry[:2])}; when, was not seen"
        if dry
        else "neither waits nor launching explain it; copies, other streams"
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
    profiler slows launches, not that, so it keeps its time per tick. And the user's own code, if its gaps are
    short, launches."""
    if deep is None or not deep.ticks or not usual_tick_s:
        return causes
    factor = 100.0 / (deep.ticks * usual_tick_s)
    long_pct = {phase: s * factor for phase, s in deep.gaps.long_by_phase_s.items() if phase in phase_pct}
    moved = {phase: min(pct, long_pct.get(phase, 0.0)) for phase, pct in causes.near_pct.items()}
    moved = {phase: pct for phase, pct in moved.items() if pct > 0}
    told = replace(
        causes,
        idle_pct={**causes.idle_pct, **{p: causes.idle_pct.get(p, 0.0) + pct for p, pct in moved.items()}},
        near_pct={phase: pct - moved.get(phase, 0.0) for phase, pct in causes.near_pct.items()},
        by_gaps=frozenset(moved),
    )
    return _own_launches(told, deep, factor)


def _own_launches(causes: Causes, deep: DeviceUse, factor: float) -> Causes:
    """A loop of small kernels looks to the lead like code that gives the GPU nothing: each is done soon. No
    more than the deep window saw of it."""
    whole_s, idle_pct = deep.gaps.by_phase_s.get("other", 0.0), causes.idle_pct.get("other", 0.0)
    short_s = whole_s - min(whole_s, deep.gaps.long_by_phase_s.get("other", 0.0))
    if whole_s <= 0 or short_s < SHORT_GAPS_FRAC * whole_s:
        return causes
    moved_pct = min(idle_pct * short_s / whole_s, short_s * factor)
    return replace(
        causes,
        idle_pct={**causes.idle_pct, "other": idle_pct - moved_pct},
        near_pct={**causes.near_pct, "other": causes.near_pct.get("other", 0.0) + moved_pct},
        own_launches=True,
    )


def gaps_inside(
    phase_pct: Mapping[str, float], deep: DeviceUse, idle_pct: float, usual_tick_s: float | None
) -> dict[str, float]:
    """Idle time by phase in the proportion of a deep window's gaps. The lead sees the ends of a phase: of
    gaps in the middle a queue that is filled there tells nothing. Empty where the window saw too few of them:
    then the idle time lies elsewhere."""
    if deep.gaps.total_s <= 0 or not deep.ticks or not usual_tick_s:
        return {}
    if 100 * deep.gaps.total_s / (deep.ticks * usual_tick_s) < GAPS_SEEN_FRAC * idle_pct:
        return {}
    gaps = {phase: s for phase, s in deep.gaps.by_phase_s.items() if phase in phase_pct}
    return {phase: min(phase_pct[phase], idle_pct * s / deep.gaps.total_s) for phase, s in gaps.items()}


def _of(part_s: float, whole_s: float) -> float:
    return min(1.0, max(0.0, part_s / whole_s))
