"""SK408: what is allocated on the GPU grows from tick to tick."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, number, share, without_ceiling
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import LEAK_FULL_S, LEAK_SOON_S
from stoker.model.finding import Finding, Fix, Severity

CODE, NAME = "SK408", "GPU memory grows steadily"
_FIXES = (
    Fix(
        "keep figures, not graphs",
        "losses.append(loss)",
        "losses.append(loss.detach())",
    ),
    Fix("what a list or a cache holds for the log: move it to the CPU, or forget the oldest"),
)


def find(found: Signals) -> Finding | None:
    memory = found.gpu.memory if found.gpu else None
    if memory is None or memory.full_in_s is None or memory.full_in_s > LEAK_FULL_S:
        return None
    per_tick = memory.growth_bytes_per_tick
    evidence = [
        number("{} MiB more in a tick", per_tick / 2**20 if per_tick else None, "MiB/tick", "torch"),
        number("full in about {} min at this pace", memory.full_in_s / 60, "min", "torch"),
        share("of its memory is in use", found.gpu.memory_frac if found.gpu else None, "nvml"),
    ]
    return without_ceiling(
        CODE,
        NAME,
        f"allocated memory grows evenly: full in about {_about(memory.full_in_s)}",
        "GPU memory",
        "it costs no time until the memory is full",
        evidence,
        "torch.cuda.memory_allocated() printed every 100 ticks rises without end",
        _FIXES,
        severity=Severity.CRITICAL if memory.full_in_s < LEAK_SOON_S else Severity.WARNING,
    )


def _about(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} h"


CAUSE = Cause(CODE, NAME, find)
