"""Whether a trial had its device for itself and at its usual clock, from what the watchers recorded
meanwhile."""

from __future__ import annotations

from stoker.diagnose.host import host_view
from stoker.model.gpu import GpuReading
from stoker.model.host import HostRecord
from stoker.model.run import Run
from stoker.outside.gpu.readings import CHOSEN_CLOCKS

SLOW_CLOCK_FRAC = 0.75
BUSY_PCT = 50.0
CPU_FULL_PCT = 75.0
"""Below it there was room for others."""
CPU_FOREIGN_FRAC = 0.25
CPU_FOREIGN = "other programs took more than a quarter of the CPU in a trial, and left little of it"


def notes_on_conditions(run: Run) -> tuple[str, ...]:
    readings = run.gpu.readings
    return (*_foreign(readings), *_slowed(readings), *_low_clock(run), *_crowded_cpu(run.host))


def _foreign(readings: tuple[GpuReading, ...]) -> list[str]:
    pids = sorted({pid for reading in readings for pid in reading.foreign_pids or ()})
    return [f"others used the GPU during the trial: process {', '.join(map(str, pids))}"] if pids else []


def _slowed(readings: tuple[GpuReading, ...]) -> list[str]:
    reasons = {reason for reading in readings for reason in reading.throttled_by or ()} - CHOSEN_CLOCKS
    return [f"the GPU's clock was held down: {', '.join(sorted(reasons))}"] if reasons else []


def _low_clock(run: Run) -> list[str]:
    """While it was busy; an idle card sleeps at a low clock."""
    highest = {device.gpu: device.sm_clock_max_mhz for device in run.gpu.devices}
    notes = []
    for gpu, limit in highest.items():
        clocks = sorted(
            reading.sm_clock_mhz
            for reading in run.gpu.readings
            if reading.gpu == gpu and reading.sm_clock_mhz and (reading.busy_pct or 0) >= BUSY_PCT
        )
        if limit and clocks and clocks[len(clocks) // 2] < SLOW_CLOCK_FRAC * limit:
            notes.append(f"GPU {gpu} ran at {clocks[len(clocks) // 2]} MHz of {limit} while busy")
    return notes


def _crowded_cpu(record: HostRecord) -> list[str]:
    """Without figures: all trials of a comparison say it in the same words, and the page says it once."""
    view, cores = host_view(record), record.header.cores_affinity if record.header else None
    if view is None or not cores or view.allowed_cpu_pct is None or view.cores_used is None:
        return []
    foreign_frac = view.allowed_cpu_pct / 100 - view.cores_used / cores
    is_full = view.allowed_cpu_pct >= CPU_FULL_PCT
    return [CPU_FOREIGN] if is_full and foreign_frac > CPU_FOREIGN_FRAC else []
