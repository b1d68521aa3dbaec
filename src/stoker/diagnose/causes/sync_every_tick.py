"""SK401: the training reads from the GPU in every tick, so that host and GPU take turns."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.model_on_cpu import split
from stoker.diagnose.causes.signals import BlockingLine, Signals
from stoker.diagnose.causes.single_inference import find as single_inference
from stoker.diagnose.causes.thresholds import SYNCS_PER_TICK
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK401", "reads from the GPU in every tick"
_FIXES = (
    Fix(
        "keep figures on the GPU, read them now and then",
        "losses.append(loss.item())",
        "losses.append(loss.detach())\nif step % 100 == 0: log(torch.stack(losses).mean().item())",
    ),
    Fix(
        "no question to a tensor in Python",
        "if mask.any(): x = x[mask]",
        "x = torch.where(mask, x, 0)",
    ),
)


def find(found: Signals) -> Finding | None:
    line = _most_frequent(found)
    if found.gpu is None or line is None or split(found):
        return None
    return finding(
        CODE,
        NAME,
        "the training thread waits for the GPU in every tick, and the GPU then waits for the thread",
        recoverable(found),
        found.lost_of,
        [
            number("this line reads {} times a tick", line.per_tick, "1/tick", "host clock"),
            share("of the thread's time is waiting for the GPU", found.host_pct["sync"] / 100, "host clock"),
            share("of the window the GPU idles", (found.gpu.idle_pct or 0.0) / 100, found.gpu.source),
        ],
        "leave the read out for a short run: ticks/s rise",
        _FIXES,
        line.place,
    )


def recoverable(found: Signals) -> float:
    """Without the reads both would work at the same time, and the slower of the two would set the pace:
    the thread without its waiting, or the GPU without its gaps. An environment waits for its actions
    whether they are read early or late."""
    idle_pct = (found.gpu.idle_pct if found.gpu else None) or 0.0
    return min(max(0.0, idle_pct - 100 * found.lost("env")), found.host_pct["sync"]) / 100


def _most_frequent(found: Signals) -> BlockingLine | None:
    """Reads of actions, one for each call of an environment, are of SK302 where that is found."""
    acting = 1.1 * found.env_calls_per_tick if single_inference(found) else 0.0
    least = max(SYNCS_PER_TICK, acting)
    lines = [line for line in found.blocking if line.phase == "sync" and line.per_tick >= least]
    return max(lines, key=lambda line: line.pct, default=None)


CAUSE = Cause(CODE, NAME, find)
