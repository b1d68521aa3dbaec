"""SK404: the GPU is busy with kernels too small to fill it, and has memory to spare."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import BUSY_FOR_BATCH_PCT, LITTLE_WORK_FRAC, MEMORY_FREE_FRAC
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK404", "batch too small for the GPU"
_FIXES = (
    Fix(
        "a larger batch; it changes the training: keep the learning-rate rule and check the result",
        "DataLoader(dataset, batch_size=32)",
        "DataLoader(dataset, batch_size=128)",
    ),
    Fix("in RL: more environments to a step, with as many updates per env step as before"),
    Fix("two trainings on this card at once, where one cannot be made larger"),
)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or gpu.busy_pct is None or gpu.real_work_pct is None or gpu.memory_frac is None:
        return None
    if not gpu.alone:
        return None
    fills_little = gpu.real_work_pct < LITTLE_WORK_FRAC * gpu.busy_pct
    if gpu.busy_pct < BUSY_FOR_BATCH_PCT or not fills_little or gpu.memory_frac >= MEMORY_FREE_FRAC:
        return None
    return finding(
        CODE,
        NAME,
        "kernels run all the time but fill little of the GPU, and most of its memory is free",
        (gpu.busy_pct - gpu.real_work_pct) / 100,
        "GPU busy with little work",
        [
            share("of the window the GPU is busy", gpu.busy_pct / 100, "gpm or nvml"),
            share("is real work", gpu.real_work_pct / 100, gpu.real_work_source),
            share("of its memory is in use", gpu.memory_frac, "nvml"),
        ],
        "twice the batch takes much less than twice as long a tick",
        _FIXES,
    )


CAUSE = Cause(CODE, NAME, find)
