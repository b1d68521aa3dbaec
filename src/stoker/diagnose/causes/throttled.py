"""SK502: the card runs below its clock: heat, a power limit that was lowered, or somebody's setting.

A card that takes all the power it is delivered to take lowers its clock, too: that is full load, no cause.
"""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding
from stoker.diagnose.causes.gpu_signals import GpuSignals
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    CLOCK_LOW_FRAC,
    POWER_LOWERED_FRAC,
    THROTTLED_FRAC,
)
from stoker.model.finding import Evidence, Finding, Fix
from stoker.model.gpu import POWER_CAP

CODE, NAME = "SK502", "GPU clocks throttled"
_FIXES = (
    Fix("heat: airflow, dust, the neighbour's card; nvidia-smi -q -d TEMPERATURE,PERFORMANCE"),
    Fix("a power cap or clocks that were set: nvidia-smi -q -d POWER,CLOCK; resetting them needs root"),
)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or gpu.clock_frac is None or gpu.clock_frac >= CLOCK_LOW_FRAC:
        return None
    held = _held_by(gpu)
    if not held:
        return None
    looks, reasons = 100 * max(held.values()), ", ".join(held)
    return finding(
        CODE,
        NAME,
        f"the GPU runs at {100 * gpu.clock_frac:.0f} % of its clock: {reasons}",
        (1 - gpu.clock_frac) * (gpu.busy_pct or 100.0) / 100,
        "GPU busy at a lower clock",
        [
            Evidence(f"throttled at {looks:.0f} % of the looks: {reasons}", looks, "%", "nvml"),
            Evidence(
                f"median clock {100 * gpu.clock_frac:.0f} % of the highest", 100 * gpu.clock_frac, "%", "nvml"
            ),
            *_limit(gpu, held),
        ],
        "nvidia-smi -q -d PERFORMANCE while it runs",
        _FIXES,
        in_code=False,
    )


def _held_by(gpu: GpuSignals) -> dict[str, float]:
    """Reasons that are frequent and not as they should be. Whether a power limit was lowered is not known
    of drivers that do not tell the default: then nothing is claimed."""
    lowered = gpu.power_limit_frac is not None and gpu.power_limit_frac < POWER_LOWERED_FRAC
    frequent = {name: frac for name, frac in gpu.throttled_by.items() if frac >= THROTTLED_FRAC}
    return {name: frac for name, frac in frequent.items() if name != POWER_CAP or lowered}


def _limit(gpu: GpuSignals, held: dict[str, float]) -> tuple[Evidence, ...]:
    if POWER_CAP not in held or gpu.power_limit_frac is None:
        return ()
    share = 100 * gpu.power_limit_frac
    return (Evidence(f"its power limit is {share:.0f} % of the card's default", share, "%", "nvml"),)


CAUSE = Cause(CODE, NAME, find)
