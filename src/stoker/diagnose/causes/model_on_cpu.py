"""SK406: a part of what is trained was left on the CPU; each tick goes there and back."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import CPU_TRAINED_FRAC
from stoker.model.finding import Finding, Fix
from stoker.model.record import COMPUTE

CODE, NAME = "SK406", "part of the model on the CPU"
_FIXES = (
    Fix(
        "the whole model on the GPU",
        "model.backbone.to(device)",
        "model.to(device)  # before the optimizer is made",
    ),
    Fix("where it does not fit: a smaller batch, bfloat16, or checkpointed activations first"),
)


def split(found: Signals) -> bool:
    """Then its reads, copies and slow launches are its own, and no causes beside it."""
    return found.gpu is not None and found.cpu_trained_frac >= CPU_TRAINED_FRAC


def find(found: Signals) -> Finding | None:
    if found.gpu is None or not split(found):
        return None
    lines = [line for line in found.blocking if line.phase in ("sync", "h2d")]
    line = max(lines, key=lambda one: one.pct, default=None)
    return finding(
        CODE,
        NAME,
        "some of the trained weights are on the CPU: the GPU waits while the CPU computes",
        _lost(found),
        found.lost_of,
        [
            share("of the trained numbers are on the CPU", found.cpu_trained_frac, "optimizer"),
            share("of the window the GPU idles", (found.gpu.idle_pct or 0.0) / 100, found.gpu.source),
            number("{} reads from the GPU a tick", found.reads_per_tick(), "1/tick", "host clock"),
        ],
        "print(next(part.parameters()).device) for each part of the model",
        _FIXES,
        line.place if line else None,
    )


def _lost(found: Signals) -> float:
    """Idle time of the model's own phases, of the copies between its parts, and what nothing else tells."""
    gpu = found.gpu
    if gpu is None:
        return 0.0
    phases = sum(found.lost(phase) for phase in (*COMPUTE, "h2d", "sync"))
    told = phases + (sum(gpu.launching_pct.values()) + gpu.unexplained_pct) / 100
    return min(told, (gpu.idle_pct or 100.0) / 100)


CAUSE = Cause(CODE, NAME, find)
