"""SK407: GPU memory is given back to the driver and taken again, tick by tick."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import FREES_PER_TICK, RETRIES_PER_TICK
from stoker.model.finding import Finding, Fix
from stoker.model.record import COMPUTE

CODE, NAME = "SK407", "GPU memory allocated anew in every tick"
_FIXES = (
    Fix("leave the cache alone", "torch.cuda.empty_cache()  # in every step", ""),
    Fix(
        "memory nearly full and shapes that vary: segments that grow",
        "",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    ),
    Fix("a smaller batch, or batches padded to a few fixed shapes"),
)


def thrashing(found: Signals) -> bool:
    """Then the idle time between its calls is its own."""
    memory = found.gpu.memory if found.gpu else None
    if memory is None:
        return False
    often = (memory.frees_per_tick or 0.0) >= FREES_PER_TICK
    return often or (memory.retries_per_tick or 0.0) >= RETRIES_PER_TICK


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or not thrashing(found):
        return None
    line = found.top_line("other")
    full = (gpu.memory.retries_per_tick or 0.0) >= RETRIES_PER_TICK
    return finding(
        CODE,
        NAME,
        "torch's cache is emptied again and again, and each cudaFree waits for the GPU"
        + (": the memory is nearly full" if full else ""),
        _lost(found),
        found.lost_of,
        [
            number("{} blocks a tick go back to the driver", gpu.memory.frees_per_tick, "1/tick", "torch"),
            number("{} times a tick no block was left", gpu.memory.retries_per_tick, "1/tick", "torch"),
            share("of the window the GPU idles", (gpu.idle_pct or 0.0) / 100, gpu.source),
            share("of its memory is in use", gpu.memory_frac, "nvml"),
        ],
        "torch.cuda.memory_stats()['num_device_free'] stands still once it is mended",
        _FIXES,
        line.place if line and not full else None,
    )


def _lost(found: Signals) -> float:
    """Idle time in the thread's own code and in the model's, where memory is asked for."""
    gpu = found.gpu
    if gpu is None:
        return 0.0
    phases = sum(found.lost(phase) for phase in (*COMPUTE, "other"))
    told = phases + (sum(gpu.launching_pct.values()) + gpu.unexplained_pct) / 100
    return min(told, (gpu.idle_pct or 100.0) / 100)


CAUSE = Cause(CODE, NAME, find)
