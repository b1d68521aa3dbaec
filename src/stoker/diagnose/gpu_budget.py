"""100 % of a window's wall time on one GPU, each second in one place: real work, busy with little work, idle
by cause, unknown. Pure arithmetic on what was recorded.

How much of the time the GPU is busy the counters say; which phase left it idle, `gpu_idle`. Without counters
only what the lead measured is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from stoker.diagnose.deep import DeviceUse, usual_busy_frac, without_behind
from stoker.diagnose.gpu_causes import Causes, Known, Source
from stoker.diagnose.gpu_idle import IdleTime, idle_time
from stoker.diagnose.gpu_view import GpuView
from stoker.model.lead import Lead
from stoker.model.record import COMPUTE

CONTRADICTION_PCT = 3.0
"""The figures are within as many points of each other where all is well."""
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
    found = idle_time(phase_pct, idle_pct, lead, deep, usual_tick_s)
    causes = found.causes
    return GpuBudget(
        busy_pct=busy_pct,
        busy_source=busy_source,
        real_work_pct=real_pct,
        real_work_source=real_source,
        phases=_phases(phase_pct, found, busy_source),
        idle_source=causes.source if causes else None,
        launching_pct=None if idle_pct is None else sum(found.launching_pct.values()),
        unknown_idle_pct=None if idle_pct is None else found.left_pct,
        unknown_reason=causes.rest if causes else no_lead,
        unknown_pct=found.left_pct if idle_pct is None else 0.0,
        told_idle_pct=found.told_pct if causes else None,
        contradiction=_contradiction(found.told_pct, idle_pct, causes),
        own_launches=causes is not None and causes.own_launches,
    )


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


def _phases(
    phase_pct: Mapping[str, float], found: IdleTime, counters: Source | None
) -> tuple[PhaseCause, ...]:
    """A phase of which the account has nothing is not known to be harmless."""
    causes, idle, launching = found.causes, found.idle_pct, found.launching_pct
    rows = []
    for phase, host_pct in phase_pct.items():
        told = phase in idle or phase in launching
        counted = phase in found.surely_pct and idle[phase] <= found.surely_pct[phase]
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
                doubt_pct=min(found.left_pct, causes.doubt_pct.get(phase, 0.0)) if causes else 0.0,
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
