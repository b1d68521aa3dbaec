"""What the GPU does, on a run's page: the bar, its causes by phase, and the card's own figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.diagnose.causes.thresholds import POWER_LOWERED_FRAC
from stoker.diagnose.gpu_budget import GpuBudget, Kind, Part, PhaseCause
from stoker.diagnose.gpu_causes import Source
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.gpu_view import GpuView, WatcherCost, watcher_cost
from stoker.diagnose.places import shown
from stoker.diagnose.rank_gpus import rank_gpu
from stoker.diagnose.run_class import run_class
from stoker.diagnose.summary import Summary, Trainer
from stoker.model.gpu import POWER_CAP
from stoker.report.class_row import class_row
from stoker.report.figures import counted, duration, percent, size
from stoker.report.page import Block, Facts, Segment, Stack, Table, Tone

CAUSES_SHOWN = 4
SMALL_PCT = 0.5
"""Causes below it are shown together; phases of the host below it not at all."""
SHOWN_PCT = 0.05
"""Less would be shown as 0.0 %."""
THROTTLED_FRAC = 0.01

SOURCES = {
    Source.GPM: "GPM",
    Source.NVML: "NVML",
    Source.BOTH: "GPM and NVML",
    Source.EVENTS: "CUDA events",
    Source.ASKED: "the queue was asked",
    Source.DEEP: "deep window",
}
BUSY = (Kind.REAL, Kind.LITTLE, Kind.BUSY)
WAITING_NOTE = "inferred: it spins in a collective"
_TONES = {
    Kind.REAL: Tone.GOOD,
    Kind.LITTLE: Tone.FAIR,
    Kind.BUSY: Tone.FAIR,
    Kind.IDLE: Tone.LOST,
    Kind.LAUNCHING: Tone.INFERRED,
    Kind.UNKNOWN_IDLE: Tone.UNKNOWN,
    Kind.UNKNOWN: Tone.UNKNOWN,
}


def gpu_blocks(summary: Summary, main: Trainer) -> list[Block]:
    use = main.gpus.main
    if use is None:
        return []
    blocks: list[Block] = [
        Stack(_heading(main, use), tuple(_own_segments(summary, main, use))),
        _cause_table(use.budget),
        Facts((*class_row(run_class(summary)), *_facts(use, watcher_cost(summary.run.gpu)))),
    ]
    return blocks


def _heading(main: Trainer, use: GpuUse) -> str:
    who = "" if use.alone else ", all processes together"
    return f"What the GPU does{who} ({use.name or 'GPU'}, {duration(main.window.seconds)} of training)"


def _own_segments(summary: Summary, main: Trainer, use: GpuUse) -> list[Segment]:
    own = rank_gpu(summary, main)
    parts, waiting_pct = (own.parts, own.waiting_pct) if own else (use.budget.parts, None)
    return segments(parts, waiting_pct, lambda part: _note(summary, main, use, part))


def segments(parts: Sequence[Part], waiting_pct: float | None, note: Callable[[Part], str]) -> list[Segment]:
    """Waiting for other ranks stands behind what else is busy; small causes are put together, behind the
    large ones."""
    busy = [part for part in parts if part.kind in BUSY]
    causes = [part for part in parts if part.kind is Kind.IDLE]
    rest = [part for part in parts if part not in busy and part not in causes]
    large = [part for part in causes if part.pct >= SMALL_PCT][:CAUSES_SHOWN]
    small_pct = sum(part.pct for part in causes[len(large) :])
    drawn = [
        *_drawn(busy, note),
        Segment("waiting for other ranks", waiting_pct or 0.0, WAITING_NOTE, Tone.LOST),
        *_drawn(large, note),
        Segment("idle: other phases", small_pct, "", Tone.LOST),
        *_drawn(rest, note),
    ]
    return [segment for segment in drawn if segment.pct >= SHOWN_PCT]


def _drawn(parts: Sequence[Part], note: Callable[[Part], str]) -> list[Segment]:
    return [Segment(label(part), part.pct, note(part), _TONES[part.kind]) for part in parts]


def label(part: Part) -> str:
    if part.kind is Kind.IDLE:
        return f"idle: {part.phase}"
    return "idle: launching" if part.kind is Kind.LAUNCHING else str(part.kind)


def _note(summary: Summary, main: Trainer, use: GpuUse, part: Part) -> str:
    match part.kind:
        case Kind.REAL if part.source is Source.DEEP:
            return "estimated from a deep window, at most"
        case Kind.REAL:
            return "multiprocessors at work (GPM)"
        case Kind.LITTLE:
            return "something ran, on few multiprocessors"
        case Kind.BUSY:
            return "how much of it is real work is not measured"
        case Kind.IDLE:
            return _line(summary, main, part.phase)
        case Kind.LAUNCHING:
            return "waits for one small kernel after another"
        case Kind.UNKNOWN_IDLE:
            return use.budget.unknown_reason.partition("; ")[0]
        case Kind.UNKNOWN:
            return "the GPU's counters were not read"


def _line(summary: Summary, main: Trainer, phase: str) -> str:
    """Where the training thread was, most of that time."""
    line = next((line for line in main.lines if line.phase == phase and line.place.leaf), None)
    return shown(line.place, summary.run.info.cwd) if line else ""


def _cause_table(budget: GpuBudget) -> Table:
    rows = tuple(
        (
            cause.phase,
            pct(cause.host_pct),
            pct(cause.caused_pct),
            _how(cause, scaled=bool(budget.contradiction)),
        )
        for cause in budget.phases
        if cause.host_pct >= SMALL_PCT or (cause.caused_pct or 0.0) >= SMALL_PCT
    )
    return Table(
        "Whose fault its idle time is",
        ("phase", "host", "GPU idle", "how it is known"),
        rows,
        frozenset({1, 2}),
    )


def _how(cause: PhaseCause, *, scaled: bool) -> str:
    if cause.source is None or cause.idle_pct is None:
        return "not known"
    if cause.hidden:
        return "hidden: the GPU works meanwhile"
    by = "deep window" if cause.source is Source.DEEP else f"measured ({SOURCES[cause.source]})"
    if scaled and cause.idle_pct >= SHOWN_PCT:
        by += ", scaled down"
    if cause.launching_pct >= SHOWN_PCT:
        launching = "launching, inferred"
        by = launching if cause.idle_pct < SHOWN_PCT else f"{cause.idle_pct:.1f} {by}, rest {launching}"
    if cause.doubt_pct >= SMALL_PCT:
        by += f"; up to {cause.doubt_pct:.1f} % more"
    return by


def _facts(use: GpuUse, cost: WatcherCost | None) -> list[tuple[str, str]]:
    rows = [("gpu", " · ".join(_busy(use)))]
    view = use.view
    if view is not None:
        rows += [("memory", " · ".join(_memory(view))), ("card", " · ".join(_card(view)))]
    if use.deep is not None:
        rows.append(("deep window", " · ".join(_deep(use))))
    if cost is not None:
        rows.append(("watching", _watching(cost)))
    return [(label, text) for label, text in rows if text]


def _busy(use: GpuUse) -> list[str]:
    budget, view = use.budget, use.view
    if budget.busy_pct is None:
        return ["busy is not measured"]
    source = SOURCES[budget.busy_source] if budget.busy_source else ""
    if view is not None and view.busy_pct is not None and view.busy_pct - budget.busy_pct >= SMALL_PCT:
        source += f"; {view.busy_pct - budget.busy_pct:.1f} counted behind kernels are left out"
    parts = [f"busy {budget.busy_pct:.1f} %{f' ({source})' if source else ''}"]
    if view is not None:
        known = {
            "SM active": view.sm_active_pct,
            "occupancy": view.sm_occupancy_pct,
            "tensor": view.tensor_pct,
            "DRAM": view.dram_pct,
            "plain FP32": view.fp32_pct,
        }
        parts += [f"{name} {value:.1f} %" for name, value in known.items() if value is not None]
    return parts


def _memory(view: GpuView) -> list[str]:
    parts = []
    if view.memory_peak_bytes is not None:
        of = f" of {size(view.memory_total_bytes)}" if view.memory_total_bytes else ""
        parts.append(f"peak {size(view.memory_peak_bytes)}{of}")
    allocator = view.allocator
    if allocator is not None and allocator.reserved_max_bytes is not None:
        held = (
            f", {size(allocator.allocated_max_bytes)} of it in use" if allocator.allocated_max_bytes else ""
        )
        parts.append(f"torch reserved {size(allocator.reserved_max_bytes)}{held}")
    if allocator is not None and allocator.retries:
        parts.append(f"{counted(allocator.retries, 'allocation')} had to be tried again")
    return parts


def _card(view: GpuView) -> list[str]:
    parts = []
    if view.sm_clock_median_mhz is not None:
        of = f" of {view.sm_clock_max_mhz:,}" if view.sm_clock_max_mhz else ""
        parts.append(f"clock {view.sm_clock_median_mhz:,.0f}{of} MHz")
    if view.throttled_frac is not None:
        parts.append(_throttling(view))
    if view.power_w is not None:
        of = f" of {view.power_limit_w:.0f}" if view.power_limit_w else ""
        parts.append(f"{view.power_w:.0f}{of} W")
    if view.temperature_max_c is not None:
        parts.append(f"up to {view.temperature_max_c} °C")
    return parts


def _throttling(view: GpuView) -> str:
    if not view.throttled_frac or view.throttled_frac < THROTTLED_FRAC:
        return "not throttled"
    names = [name for name, _ in view.throttled_by[:2]]
    if names == [POWER_CAP] and (limit := view.power_limit_frac) is not None and limit >= POWER_LOWERED_FRAC:
        return f"at its power limit {percent(view.throttled_frac)} of the time: normal under full load"
    return f"throttled {percent(view.throttled_frac)} of the time ({', '.join(names)})"


def _deep(use: GpuUse) -> list[str]:
    deep = use.deep
    if deep is None:
        return []
    parts = [
        counted(deep.kernels, "kernel") if not deep.ticks else f"{deep.kernels_per_tick:.0f} kernels a tick"
    ]
    if deep.median_kernel_us is not None:
        parts.append(f"half of them shorter than {deep.median_kernel_us:.3g} µs")
    pageable = sum(copies.seconds for copies in deep.copies if copies.memory == "pageable")
    if deep.seconds and pageable > deep.seconds / 100:
        parts.append(f"copies of pageable memory {percent(pageable / deep.seconds)} of the time")
    return parts


def _watching(cost: WatcherCost) -> str:
    return f"{cost.gpu_cpu_pct:.2g} % of a core for the GPUs, {cost.cpu_ms_per_look:.2g} ms a look"


def pct(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f} %"
