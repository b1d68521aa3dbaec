"""SK502: the card runs below its clock: power cap, heat, or somebody's setting."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, severity
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import CLOCK_LOW_FRAC, NOTE_FRAC, THROTTLED_FRAC
from stoker.model.finding import Evidence, Finding, Fix

CODE, NAME = "SK502", "GPU clocks throttled"
_FIXES = (
    Fix("heat: airflow, dust, the neighbour's card; nvidia-smi -q -d TEMPERATURE,PERFORMANCE"),
    Fix("a power cap or clocks that were set: nvidia-smi -q -d POWER,CLOCK; resetting them needs root"),
)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or gpu.clock_frac is None or (gpu.throttled_frac or 0.0) < THROTTLED_FRAC:
        return None
    if gpu.clock_frac >= CLOCK_LOW_FRAC:
        return None
    lost = (1 - gpu.clock_frac) * (gpu.busy_pct or 100.0) / 100
    if lost < NOTE_FRAC:
        return None
    looks, reasons = 100 * (gpu.throttled_frac or 0.0), ", ".join(gpu.throttled_by)
    return Finding(
        code=CODE,
        name=NAME,
        says=f"the GPU runs at {100 * gpu.clock_frac:.0f} % of its clock: {reasons}",
        severity=severity(lost),
        recoverable_frac=lost,
        recoverable_of="GPU busy at a lower clock",
        evidence=(
            Evidence(f"throttled at {looks:.0f} % of the looks: {reasons}", looks, "%", "nvml"),
            Evidence(
                f"median clock {100 * gpu.clock_frac:.0f} % of the highest", 100 * gpu.clock_frac, "%", "nvml"
            ),
        ),
        confirm="nvidia-smi -q -d PERFORMANCE while it runs",
        fixes=_FIXES,
        in_code=False,
    )


CAUSE = Cause(CODE, NAME, find)
