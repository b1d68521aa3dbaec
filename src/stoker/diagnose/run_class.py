"""The class of a recorded run: what `stoker classify` would say of its GPUs, from the counters of the window.

As there: utilisation is the share of time in which the GPU was busy, of the least busy one; memory is the
peak of the fullest. `GpuView` has both as nvidia-smi counts them, kernels and copies. A second that the
counters speak of, however often they were read in it, is what one sample of a log is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.diagnose.classes import CaseClass, Figures, Judgement, Limits, judge
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.gpu_view import GpuView
from stoker.diagnose.summary import Summary

MIB = 2**20
SHARED = "another process computes on its GPU: busy time and memory are of all together"
NOT_COUNTED = "how busy its GPU is was not counted"


@dataclass(frozen=True, slots=True)
class RunClass:
    judgement: Judgement
    figures: Figures
    gpus: int
    source: str | None
    """Of the busy time: `gpm`, `nvml`, `gpm+nvml`."""

    @property
    def name(self) -> CaseClass:
        return self.judgement.case_class


def run_class(summary: Summary) -> RunClass | None:
    """None where the training uses no GPU: classes are of GPUs."""
    uses = [use for one in summary.trainers for use in one.gpus.uses]
    if not uses:
        return None
    figures = _figures(uses)
    why = _no_figures(uses) or _too_short(figures, summary.limits)
    judged = judge(replace(figures, util_pct=None) if why else figures, summary.limits)
    found = replace(judged, why=why) if why else judged
    return RunClass(found, figures, _count(uses), _source(uses))


def _no_figures(uses: Sequence[GpuUse]) -> str:
    if any(use.shared for use in uses):
        return SHARED
    uncounted = [use for use in uses if use.view is None or use.view.busy_pct is None]
    if uncounted and uncounted[0].no_view:
        return f"{NOT_COUNTED}: {uncounted[0].no_view}"
    return NOT_COUNTED if uncounted else ""


def _too_short(figures: Figures, limits: Limits) -> str:
    if figures.samples is None or figures.samples >= limits.fewest_samples:
        return ""
    return f"less than {limits.fewest_samples:g} s of training were counted"


def _figures(uses: Sequence[GpuUse]) -> Figures:
    views = [use.view for use in uses if use.view is not None]
    busy = [view.busy_pct for view in views if view.busy_pct is not None]
    known = [view for view in views if view.memory_peak_bytes is not None]
    fullest = max(known, key=_full, default=None)
    peak = fullest.memory_peak_bytes if fullest else None
    size = fullest.memory_total_bytes if fullest else None
    return Figures(
        util_pct=min(busy, default=None),
        peak_mem_mib=None if peak is None else peak / MIB,
        mem_total_mib=size / MIB if size else None,
        samples=min((int(view.covered_s) for view in views), default=None),
    )


def _full(view: GpuView) -> tuple[float, int]:
    """Of its own memory; where the size is not known, by how much it is."""
    peak, size = view.memory_peak_bytes or 0, view.memory_total_bytes
    return (peak / size if size else 0.0, peak)


def _count(uses: Sequence[GpuUse]) -> int:
    """Of cards; where one has no counters, its processes stand for it."""
    return len({use.view.gpu if use.view else (number, "?") for number, use in enumerate(uses)})


def _source(uses: Sequence[GpuUse]) -> str | None:
    sources = {use.view.busy_source for use in uses if use.view and use.view.busy_source}
    return "+".join(sorted({part for source in sources for part in source.split("+")})) or None
