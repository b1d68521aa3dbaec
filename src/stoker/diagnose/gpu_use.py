"""The GPUs of one training process, each with its budget; or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.diagnose import deep as deep_window
from stoker.diagnose.gpu_budget import GpuBudget, gpu_budget
from stoker.diagnose.gpu_view import GpuView, device_view, gpus_view, same_gpu
from stoker.diagnose.window import Window
from stoker.model.deep import DeepTrace
from stoker.model.gpu import GpuDevice
from stoker.model.lead import Lead
from stoker.model.record import DeviceUse, ProcessRecord
from stoker.model.run import Run

NO_LEAD = "no iteration was looked at: the run was too short, or CUDA events could not be had"


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU in the eyes of one training process."""

    index: int | None
    """torch's, in that process."""
    name: str | None
    budget: GpuBudget
    view: GpuView | None
    no_view: str
    """Why there are no counters."""
    lead: Lead | None
    deep: deep_window.DeviceUse | None
    own_processes: int
    """Of this run, that use this GPU."""

    @property
    def shared(self) -> bool:
        """Somebody else is known to compute there."""
        return bool(self.view and self.view.sharing.shared)

    @property
    def alone(self) -> bool:
        """Busy is this process's own, as far as anybody can tell."""
        return not self.shared and self.own_processes <= 1


@dataclass(frozen=True, slots=True)
class GpusUsed:
    uses: tuple[GpuUse, ...] = ()
    """The one that matters most first."""
    reason: str = ""
    """Why there are none."""

    @property
    def main(self) -> GpuUse | None:
        return self.uses[0] if self.uses else None


def gpus_used(
    run: Run,
    record: ProcessRecord,
    window: Window,
    phase_pct: Mapping[str, float],
    trace: DeepTrace | None = None,
) -> GpusUsed:
    """`trace`: the deep window of this process, if one was taken."""
    traced = {use.device: use for use in deep_window.use_by_device(trace)} if trace else {}
    named = {use.index: use for use in record.devices}
    indices = sorted({*named, *traced, *([record.lead.device] if record.lead else [])})
    tick_s = window.seconds / window.content.ticks if window.content.ticks else None
    found: list[GpuUse] = []
    for index in indices:
        device = _device(run, record, named.get(index))
        found.append(_use(run, record, window, phase_pct, index, device, traced.get(index), tick_s))
    if not found:
        held = _held(run, record)
        found = [_use(run, record, window, phase_pct, None, device, None, tick_s) for device in held]
    if not found:
        return GpusUsed((), _no_gpu(run))
    return GpusUsed(tuple(sorted(found, key=_weight, reverse=True)))


def _use(
    run: Run,
    record: ProcessRecord,
    window: Window,
    phase_pct: Mapping[str, float],
    index: int | None,
    device: GpuDevice | None,
    deep: deep_window.DeviceUse | None,
    tick_s: float | None,
) -> GpuUse:
    view = device_view(run, device, window.parts) if device else None
    lead = record.lead if record.lead and record.lead.device == index else None
    no_lead = NO_LEAD
    if record.lead and lead is None:
        no_lead = f"the idle time by phase was looked at on GPU {record.lead.device} alone"
    name = next((use.name for use in record.devices if use.index == index), None)
    uuid = device.uuid if device else None
    return GpuUse(
        index=index,
        name=(view.name if view else None) or name,
        budget=gpu_budget(phase_pct, view, lead, deep, tick_s, no_lead),
        view=view,
        no_view="" if view else _no_counters(run),
        lead=lead,
        deep=deep,
        own_processes=sum(
            any(same_gpu(use.uuid, uuid) for use in process.devices) for process in run.processes
        ),
    )


def _device(run: Run, record: ProcessRecord, use: DeviceUse | None) -> GpuDevice | None:
    """By the UUID it named; a process that named none is on the one GPU where NVML lists it."""
    if use is not None and use.uuid is not None:
        return next((device for device in run.gpu.devices if same_gpu(device.uuid, use.uuid)), None)
    held = _held(run, record)
    return held[0] if len(held) == 1 else None


def _held(run: Run, record: ProcessRecord) -> list[GpuDevice]:
    numbers = {reading.gpu for reading in run.gpu.readings if record.pid in (reading.own_pids or ())}
    return [device for device in run.gpu.devices if device.gpu in numbers]


def _no_counters(run: Run) -> str:
    if not run.gpu.devices:
        return gpus_view(run, 0.0, 0.0).known_from
    return "which of NVML's GPUs it is cannot be told"


def _no_gpu(run: Run) -> str:
    found = gpus_view(run, 0.0, 0.0)
    return "this process uses none of the GPUs that the run uses" if found.devices else found.known_from


def _weight(use: GpuUse) -> tuple[bool, float, float]:
    """The lead is kept of the device that the training waits for; else the busiest one."""
    busy_pct = use.budget.busy_pct or 0.0
    return use.lead is not None, busy_pct, -(use.index or 0)
