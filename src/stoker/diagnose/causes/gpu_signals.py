"""What a rule may see of the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.diagnose.causes.thresholds import LAUNCH_US, LITTLE_WORK_FRAC, MEMORY_FREE_FRAC
from stoker.diagnose.chains import Chains
from stoker.diagnose.deep import usual_busy_frac
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.memory import MemoryTrend, memory_trend
from stoker.diagnose.summary import Trainer
from stoker.model.record import COMPUTE


@dataclass(frozen=True, slots=True)
class GpuSignals:
    busy_pct: float | None
    real_work_pct: float | None
    real_work_source: str
    idle_pct: float | None
    launching_pct: Mapping[str, float]
    """By phase."""
    unexplained_pct: float
    source: str
    """Of the idle time by phase."""
    tensor_pct: float | None
    dram_pct: float | None
    memory_frac: float | None
    shared: bool
    sharing: str
    alone: bool
    """The card's figures are this process's own, as far as anybody can tell."""
    throttled_by: Mapping[str, float]
    """Each reason, with its share of the looks."""
    power_limit_frac: float | None
    """In force, of the card's default; None: not known."""
    clock_frac: float | None
    copying_pct: float = 0.0
    """Of the window: counted as busy, and only copies between host and GPU ran."""
    plain_fp32_frac: float | None = None
    """Of kernel time, from a deep window."""
    chains: Chains | None = None
    """Of element by element kernels, from a deep window."""
    weights_frac: float | None = None
    """Of kernel time, over all weights whatever the batch, from a deep window."""
    memory: MemoryTrend = field(default_factory=MemoryTrend)
    fp32_pct: float | None = None
    """Counted: FP32 outside of the tensor cores, in products or in anything else."""
    host_alone_pct: Mapping[str, float] = field(default_factory=dict)
    """Of the window, by phase of the model: the GPU had nothing for longer than any launch takes."""
    driver_memory_pct: Mapping[str, float] | None = None
    """Of the window, by phase: memory is asked of the driver or given back; from a deep window."""
    own_launches: bool = False
    """The user's own code launches and does hardly anything else: from a deep window."""
    median_kernel_us: float | None = None
    """From a deep window."""


def works_little(busy_pct: float | None, real_pct: float | None) -> bool:
    """While it is busy: something runs, on few of its multiprocessors."""
    return busy_pct is not None and real_pct is not None and real_pct < LITTLE_WORK_FRAC * busy_pct


def has_room(gpu: GpuSignals) -> bool:
    """For a larger batch."""
    return gpu.alone and gpu.memory_frac is not None and gpu.memory_frac < MEMORY_FREE_FRAC


def grows_with_the_batch(gpu: GpuSignals) -> bool:
    """Most kernels take longer than a launch does, so that with more rows they would hide the launches; and
    there is room for those."""
    return has_room(gpu) and gpu.median_kernel_us is not None and gpu.median_kernel_us >= LAUNCH_US


def gpu_signals(use: GpuUse, main: Trainer) -> GpuSignals:
    budget, view, deep = use.budget, use.view, use.deep
    total = view.memory_total_bytes if view else None
    held = view.memory_peak_bytes if view else None
    clock, highest = (view.sm_clock_median_mhz, view.sm_clock_max_mhz) if view else (None, None)
    return GpuSignals(
        busy_pct=budget.busy_pct,
        real_work_pct=budget.real_work_pct,
        real_work_source=str(budget.real_work_source or "not measured"),
        idle_pct=budget.idle_pct if budget.idle_pct is not None else budget.told_idle_pct,
        launching_pct={cause.phase: cause.launching_pct for cause in budget.phases},
        unexplained_pct=(budget.unknown_idle_pct or 0.0) + budget.unknown_pct,
        source=str(budget.idle_source or "not measured"),
        tensor_pct=view.tensor_pct if view else None,
        dram_pct=view.dram_pct if view else None,
        memory_frac=held / total if held is not None and total else None,
        shared=use.shared,
        sharing=view.sharing.text if view else "",
        alone=use.alone,
        throttled_by=dict(view.throttled_by) if view else {},
        power_limit_frac=view.power_limit_frac if view else None,
        clock_frac=clock / highest if clock and highest else None,
        copying_pct=_copying_pct(use, main),
        plain_fp32_frac=deep.plain_fp32_frac if deep else None,
        chains=deep.chains if deep else None,
        weights_frac=deep.weights_frac if deep else None,
        memory=memory_trend(main.record, use.index, *main.window.span),
        fp32_pct=view.fp32_pct if view else None,
        driver_memory_pct=_driver_memory_pct(use, main),
        own_launches=budget.own_launches,
        median_kernel_us=deep.median_kernel_us if deep else None,
        host_alone_pct={
            cause.phase: cause.idle_pct or 0.0 for cause in budget.phases if cause.phase in COMPUTE
        },
    )


def _driver_memory_pct(use: GpuUse, main: Trainer) -> dict[str, float] | None:
    """A tick takes as long for it as without the profiler. None, too, where the window had none."""
    ticks, deep = main.window.content.ticks, use.deep
    if deep is None or not deep.driver_memory_s or not ticks or not deep.ticks:
        return None
    usual_s = deep.ticks * main.window.seconds / ticks
    return {phase: 100 * seconds / usual_s for phase, seconds in deep.driver_memory_s.items()}


def _copying_pct(use: GpuUse, main: Trainer) -> float:
    """The counters tell it where they are exact; else a deep window, set against the usual tick."""
    if use.view is not None and use.view.copying_pct is not None:
        return use.view.copying_pct
    ticks = main.window.content.ticks
    if use.deep is None or not ticks or use.deep.busy_frac <= 0:
        return 0.0
    usual = usual_busy_frac(use.deep, main.window.seconds / ticks)
    alone = max(0.0, use.deep.busy_frac - use.deep.kernel_busy_frac)
    return 100 * alone * (usual / use.deep.busy_frac if usual is not None else 1.0)
