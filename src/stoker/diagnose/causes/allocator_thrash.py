"""SK407: GPU memory is given back to the driver and taken again, tick by tick."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import FREES_PER_TICK, RETRIES_PER_TICK
from stoker.diagnose.places import LineShare
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


def hides_the_rest(found: Signals) -> bool:
    """Nothing but a deep window tells what its calls take, and so what is left for other causes."""
    return thrashing(found) and (found.gpu is None or found.gpu.driver_memory_pct is None)


def driver_memory_pct(found: Signals) -> Mapping[str, float]:
    """By phase, where it is a cause."""
    known = found.gpu.driver_memory_pct if found.gpu else None
    return known if known and thrashing(found) else {}


def emptying_line(found: Signals) -> LineShare | None:
    """The line of the user's own code that takes about as long as those calls there, and does not compute."""
    lines = [line for line in found.lines if line.phase == "other" and line.place.leaf and not line.computes]
    spent_pct = driver_memory_pct(found).get("other", 0.0)
    if not spent_pct:
        return next(iter(lines), None)
    enough = [line for line in lines if line.pct >= spent_pct / 2]
    return min(enough, key=lambda line: abs(line.pct - spent_pct), default=None)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or not thrashing(found):
        return None
    line, spent = emptying_line(found), sum(driver_memory_pct(found).values())
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
            share("of the window memory is asked of the driver or given back", spent / 100 or None, "deep"),
            share("of the window the GPU idles", (gpu.idle_pct or 0.0) / 100, gpu.source),
            share("of its memory is in use", gpu.memory_frac, "nvml"),
        ],
        "torch.cuda.memory_stats()['num_device_free'] stands still once it is mended",
        _FIXES,
        line.place if line and not full else None,
    )


def _lost(found: Signals) -> float:
    """As long as its calls take; without a deep window all idle time in the thread's own code and in the
    model's, where memory is asked for."""
    gpu = found.gpu
    if gpu is None:
        return 0.0
    if not hides_the_rest(found):
        return min(sum(driver_memory_pct(found).values()), gpu.idle_pct or 100.0) / 100
    return found.idle_in((*COMPUTE, "other"))


CAUSE = Cause(CODE, NAME, find)
