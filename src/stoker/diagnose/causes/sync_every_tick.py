"""SK401: the training reads from the GPU in every tick, so that host and GPU take turns."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.model_on_cpu import host_computes_pct, split
from stoker.diagnose.causes.serial_env import simulated_frac
from stoker.diagnose.causes.signals import BlockingLine, Signals
from stoker.diagnose.causes.single_inference import find as single_inference
from stoker.diagnose.causes.single_inference import reads_of_answers
from stoker.diagnose.causes.thresholds import SYNCS_PER_TICK
from stoker.diagnose.causes.turns import waited_in
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK401", "reads from the GPU in every tick"
_NOT_BY_READS = ("env", "save", "gc", "compile")
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
    Fix(
        "no index by a mask, nor unique, nonzero, repeat_interleave, whose sizes only the GPU knows",
        "table[cells[found]] = values[found]",
        'table.scatter_reduce_(0, cells, torch.where(found, values, 0), "amax")',
    ),
)


def find(found: Signals) -> Finding | None:
    lines = _frequent(found)
    if found.gpu is None or not lines or split(found):
        return None
    line = max(lines, key=lambda one: one.pct)
    inside_pct = sum(one.pct for one in lines if one.inside)
    return finding(
        CODE,
        NAME,
        "the training thread waits for the GPU in every tick, and the GPU then waits for the thread",
        recoverable(found, sum(one.pct for one in lines)),
        found.lost_of,
        [
            number(
                "this line waits {} times a tick" if line.inside else "this line reads {} times a tick",
                line.per_tick,
                "1/tick",
                "deep" if line.inside else "host clock",
            ),
            share("of the thread's time is waiting for the GPU", found.host_pct["sync"] / 100, "host clock")
            if found.host_pct["sync"]
            else None,
            share(
                "of its time is waiting inside of torch (an index by a mask, a size)",
                inside_pct / 100,
                "deep",
            )
            if inside_pct
            else None,
            share("of the window the GPU idles", (found.gpu.idle_pct or 0.0) / 100, found.gpu.source),
        ],
        "leave the read out for a short run: ticks/s rise",
        _FIXES,
        line.place,
    )


def recoverable(found: Signals, waiting_pct: float) -> float:
    """Without the reads both would work at the same time, and the slower of the two would set the pace:
    the thread without its waiting, or the GPU without its gaps. An environment, processes of the run, or a
    part of the model on the CPU wait for what they are sent whether it is read early or late, and a stall
    lasts longer than any queue."""
    others_pct = 100 * sum(map(found.lost, _NOT_BY_READS)) + sum(host_computes_pct(found).values())
    others_pct += 100 * (sum(map(found.line_lost, waited_in(found))) + simulated_frac(found))
    idle_pct = (found.gpu.idle_pct if found.gpu else None) or 0.0
    return min(max(0.0, idle_pct - others_pct), waiting_pct) / 100


def _frequent(found: Signals) -> list[BlockingLine]:
    """Those of most ticks; a copy that waits for nothing has no time. Reads of actions, one for each call of
    an environment or each row that is asked for, are of SK302 where that is found."""
    asking = single_inference(found) is not None
    least = max(SYNCS_PER_TICK, 1.1 * found.env_calls_per_tick if asking else 0.0)
    answers = reads_of_answers(found) if asking else []
    reads = [line for line in found.blocking if line.phase == "sync" and line.per_tick >= least]
    return [line for line in reads if line not in answers]


CAUSE = Cause(CODE, NAME, find)
