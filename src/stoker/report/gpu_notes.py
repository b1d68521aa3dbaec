"""What of the GPU was not measured and why, and what to take with care."""

from __future__ import annotations

from stoker.diagnose.gpu_causes import Source
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.gpu_view import GpuView
from stoker.diagnose.summary import Trainer
from stoker.report.figures import duration

COVERED_FRAC = 0.8
MISSING_SHOWN = 3
UNEXPLAINED_PCT = 3.0


def gpu_notes(main: Trainer) -> list[str]:
    if not main.gpus.uses:
        return [_no_gpu(main)]
    found: list[str] = []
    for use in main.gpus.uses:
        found += _of_use(main, use)
    return found


def _no_gpu(main: Trainer) -> str:
    if "+cpu" in (main.record.torch or ""):
        return "this torch has no GPU: the device is the CPU, the model's own time counts as work"
    return f"no figures of a GPU, times are of the training thread: {main.gpus.reason}"


def _of_use(main: Trainer, use: GpuUse) -> list[str]:
    found = [_sharing(use), use.budget.contradiction, _causes(use), _streams(use)]
    if use.view is None:
        found.append(f"the GPU's counters were not read: {use.no_view}")
    else:
        found += [_real_work(use, use.view), _coverage(main, use.view), _unverified(use.view)]
        found += missing_fields(use.view)
    return [note for note in found if note]


def _sharing(use: GpuUse) -> str:
    sharing = use.view.sharing if use.view else None
    if sharing is not None and sharing.shared:
        pids = f" (pid {', '.join(map(str, sharing.pids[:4]))})" if sharing.pids else ""
        return (
            f"{sharing.text}{pids}. Two jobs that take turns were measured at 94 % busy and a third less "
            "throughput each: busy says nothing about this training alone"
        )
    if use.own_processes > 1:
        return (
            f"{use.own_processes} processes of this run use this GPU and take turns: busy is of all together"
        )
    return f"GPU: {sharing.text}" if sharing is not None and sharing.shared is None else ""


def _causes(use: GpuUse) -> str:
    budget = use.budget
    if budget.idle_source is None:
        return f"which phase leaves the GPU idle was not measured: {budget.unknown_reason}"
    if budget.idle_source is Source.DEEP:
        return (
            "the causes of idle time come from the second of the deep window, set against the idle time of "
            "the whole: no iteration was looked at otherwise"
        )
    if (budget.unknown_idle_pct or 0.0) >= UNEXPLAINED_PCT:
        return f"idle for unknown cause, {budget.unknown_idle_pct:.0f} %: {budget.unknown_reason}"
    return ""


def _streams(use: GpuUse) -> str:
    lead = use.lead
    if lead is None or lead.streams_seen <= 1:
        return ""
    which = "the default one" if lead.stream == 0 else "the busiest that was looked at"
    return (
        f"idle time by phase speaks of one of {lead.streams_seen} CUDA streams, {which}; work of the others "
        "may fill it"
    )


def _real_work(use: GpuUse, view: GpuView) -> str:
    if view.sm_active_pct is not None or view.busy_pct is None:
        return ""
    why = view.gpm_reason or next((m.reason for m in view.missing if m.name == "sm_active_pct"), "not told")
    card, rest = view.name or "GPU", "occupancy, tensor, DRAM and PCIe are not measured"
    busy = "busy is NVML's, right within a few points"
    if use.deep is None:  # which sees each kernel
        busy += " (with tens of thousands of small kernels a second up to 8 too many)"
    if use.budget.real_work_source is Source.DEEP:
        return (
            f"{card}: {why}. So real work is an estimate from the second of a deep window, at most that; "
            f"{rest}; {busy}"
        )
    tried = f" (tried: {use.deep.real_work.reason})" if use.deep and use.deep.real_work.reason else ""
    return (
        f"{card}: {why}. So real work is not measured and the bar has only busy and idle; {rest}; {busy}. "
        f"A deep window estimates real work: --deep{tried}"
    )


def _coverage(main: Trainer, view: GpuView) -> str:
    if view.covered_s >= COVERED_FRAC * main.window.seconds:
        return ""
    return (
        f"the GPU's counters cover {duration(view.covered_s)} of the {duration(main.window.seconds)} "
        "of training on this page"
    )


def _unverified(view: GpuView) -> str:
    if not view.unverified:
        return ""
    return "a GPU cut into MIG slices: what is read of one was never tried (unverified)"


def missing_fields(view: GpuView) -> list[str]:
    """Fields with one reason in one line; what GPM alone would tell is told before."""
    by_reason: dict[str, list[str]] = {}
    for field in view.missing:
        if field.reason != view.gpm_reason:
            by_reason.setdefault(field.reason, []).append(field.name)
    told = [f"GPU: {', '.join(names)} not measured: {reason}" for reason, names in by_reason.items()]
    if len(told) > MISSING_SHOWN:
        return [*told[:MISSING_SHOWN], f"GPU: {len(told) - MISSING_SHOWN} more reasons in outside/gpu.jsonl"]
    return told
