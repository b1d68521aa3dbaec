"""SK406: a part of the model was left on the CPU; each tick goes there and back.

Of what is trained the optimizers tell where it lies. A part that is not (a frozen teacher, an encoder) shows
in the model's calls: there the GPU has nothing for longer than any launch takes.
"""

from __future__ import annotations

from stoker.diagnose.causes.allocator_thrash import thrashing
from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.cores_exhausted import starved
from stoker.diagnose.causes.held_interpreter import held_in_calls_pct
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import CPU_TRAINED_FRAC, NOTE_FRAC
from stoker.model.finding import Finding, Fix
from stoker.model.record import COMPUTE

CODE, NAME = "SK406", "part of the model on the CPU"
_CALLS = ("forward", "infer")
_CONFIRM = "print(next(part.parameters()).device) for each part of the model"
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


def host_computes_pct(found: Signals) -> dict[str, float]:
    """Of the window, in the model's calls and, where there, in backward: the host computes by itself. Empty
    where that is too little to speak of, or has another reason: no core, an interpreter that another thread
    holds, or memory that is asked for again and again. Acting is left out: a small policy for it may well be
    on the CPU."""
    if found.gpu is None or thrashing(found) or starved(found):
        return {}
    alone, infer_pct = found.gpu.host_alone_pct, found.host_pct["infer"]
    not_acting = 1 - min(1.0, found.acting_pct / infer_pct) if infer_pct > 0 else 0.0
    calls = {"forward": alone.get("forward", 0.0), "infer": alone.get("infer", 0.0) * not_acting}
    if sum(calls.values()) < 100 * NOTE_FRAC:
        return {}
    told = {**calls, "backward": alone.get("backward", 0.0) if calls["forward"] else 0.0}
    whole_pct = sum(told.values())
    held_pct = sum(held_in_calls_pct(found, phase) for phase, pct in told.items() if pct > 0)
    left = max(0.0, 1 - (100 * found.without_core() + held_pct) / whole_pct)
    return {phase: pct * left for phase, pct in told.items()} if whole_pct * left >= 100 * NOTE_FRAC else {}


def find(found: Signals) -> Finding | None:
    return _trained(found) if split(found) else _untrained(found)


def _trained(found: Signals) -> Finding | None:
    if found.gpu is None:
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
        _CONFIRM,
        _FIXES,
        line.place if line else None,
    )


def _untrained(found: Signals) -> Finding | None:
    calls = host_computes_pct(found)
    if found.gpu is None or not calls:
        return None
    phase = max(_CALLS, key=calls.__getitem__)
    where = "there and in its backward" if calls["backward"] > 0 else "there"
    lost = min(sum(calls.values()), found.gpu.idle_pct or 100.0) / 100
    return finding(
        CODE,
        NAME,
        "in a call of the model the GPU has nothing to do: that part computes on the CPU, or in Python",
        lost,
        found.lost_of,
        [
            share(f"of the window the host computes {where} by itself", lost, _source(found)),
            share(
                "of the training thread's time is in such calls", found.host_pct[phase] / 100, "host clock"
            ),
        ],
        _CONFIRM,
        (*_FIXES, Fix("Python code in forward(): on whole tensors, or before the model, in the loader")),
        found.call_sites.get(phase),
    )


def _source(found: Signals) -> str:
    measured = found.gpu is not None and any(found.lost(phase) for phase in _CALLS)
    return found.gpu.source if found.gpu and measured else "deep"


def _lost(found: Signals) -> float:
    """Idle time of the model's own phases, of the copies between its parts, and what nothing else tells."""
    return found.idle_in((*COMPUTE, "h2d", "sync"))


CAUSE = Cause(CODE, NAME, find)
