"""SK404: the GPU is busy with kernels too small to fill it, or mostly with the weights, or waits for the next
of kernels that more rows would make longer; and has memory to spare."""

from __future__ import annotations

from stoker.diagnose.causes.cause import LITTLE_WORK, Cause, as_frac, finding, number, share
from stoker.diagnose.causes.gpu_signals import GpuSignals, has_room, works_little
from stoker.diagnose.causes.launch_bound import of_the_batch
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import BUSY_FOR_BATCH_PCT, WEIGHTS_FRAC
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK404", "batch too small for the GPU"
_LITTLE = "kernels run all the time but fill little of the GPU", LITTLE_WORK
_WEIGHTS = (
    "much of the GPU's work is the optimizer's, the same whatever the batch",
    "GPU time that a larger batch shares out",
)
_WAITS = "the GPU waits for the next kernel, and with more rows most would take longer, not be more"
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
    if gpu is None or not has_room(gpu):
        return None
    (says, of, lost), waits = _while_busy(found, gpu), of_the_batch(found)
    if waits > lost:
        says, of = _WAITS, found.lost_of
    return finding(
        CODE,
        NAME,
        f"{says}, and most of its memory is free",
        lost + waits,
        of,
        [
            share("of the window the GPU is busy", as_frac(gpu.busy_pct), "gpm or nvml"),
            share("is real work", as_frac(gpu.real_work_pct), gpu.real_work_source),
            share("of the window it waits for the model's next kernel", waits or None, gpu.source),
            number("half of the kernels take longer than {} us", gpu.median_kernel_us, "us", "deep")
            if waits
            else None,
            share("of kernel time is the optimizer's and the like", gpu.weights_frac or None, "deep"),
            share("of its memory is in use", gpu.memory_frac, "nvml"),
        ],
        "twice the batch takes much less than twice as long a tick",
        _FIXES,
        mend_at=found.loader.loader.made if found.loader else None,
    )


def _while_busy(found: Signals, gpu: GpuSignals) -> tuple[str, str, float]:
    """What is the matter, of what, and how much of the window."""
    busy_pct = (gpu.busy_pct or 0.0) - 100 * found.waits_for_ranks_frac  # it may spin in a collective
    if busy_pct < BUSY_FOR_BATCH_PCT or gpu.real_work_pct is None:
        return (*_LITTLE, 0.0)
    little_pct = busy_pct - gpu.real_work_pct if works_little(busy_pct, gpu.real_work_pct) else 0.0
    weights_pct = busy_pct * _over_weights(gpu)
    kind = _WEIGHTS if weights_pct > little_pct else _LITTLE
    return (*kind, max(little_pct, weights_pct) / 100)


def _over_weights(gpu: GpuSignals) -> float:
    """They are gone over once a tick: with twice the batch half as often for as many samples."""
    return gpu.weights_frac if gpu.weights_frac is not None and gpu.weights_frac >= WEIGHTS_FRAC else 0.0


CAUSE = Cause(CODE, NAME, find)
