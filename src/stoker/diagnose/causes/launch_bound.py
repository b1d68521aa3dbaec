"""SK402: many small kernels, each done before the next one comes."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.diagnose.causes.allocator_thrash import driver_memory_pct, hides_the_rest
from stoker.diagnose.causes.cause import Cause, as_frac, finding, share
from stoker.diagnose.causes.cores_exhausted import starved
from stoker.diagnose.causes.gpu_signals import grows_with_the_batch
from stoker.diagnose.causes.held_interpreter import held_frac, held_in_own_code_frac
from stoker.diagnose.causes.hot_line import hot_launching
from stoker.diagnose.causes.model_on_cpu import host_computes_pct, split
from stoker.diagnose.causes.serial_env import simulated_launching
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.single_inference import find as single_inference
from stoker.diagnose.causes.single_inference import launching_beside
from stoker.diagnose.causes.thresholds import MOST_IDLE_FRAC, WARNING_FRAC
from stoker.diagnose.causes.turns import waiting_launching
from stoker.diagnose.places import LineShare
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK402", "launch-bound"
_WITH_THE_BATCH = ("forward", "loss", "backward")
"""Phases whose kernels have the batch's rows."""
_FIXES = (
    Fix(
        "let torch.compile fuse and graph",
        "model = Net()",
        'model = torch.compile(Net(), mode="reduce-overhead")',
    ),
    Fix(
        "one kernel for all parameters",
        "torch.optim.Adam(params, foreach=False)",
        "torch.optim.Adam(params, fused=True)",
    ),
    Fix(
        "in a loop over tensors of your own: all of them in one call",
        "for a, w in zip(averages, weights):\n    a.lerp_(w, 0.01)",
        "torch._foreach_lerp_(averages, weights, 0.01)",
    ),
    Fix("a larger batch or more environments to a step, where the training allows it"),
)


def find(found: Signals) -> Finding | None:
    waits = _waits(found)
    if _more_rows_would_hide_it(found, waits):
        waits = {phase: pct for phase, pct in waits.items() if phase not in _WITH_THE_BATCH}
    lost = _named(found, sum(waits.values()) / 100)
    if found.gpu is None or not lost:
        return None
    busiest = max(waits, key=waits.__getitem__, default="")
    line = None if hot_launching(found).get(busiest) else _line(found, busiest)
    return finding(
        CODE,
        NAME,
        "the GPU waits for one small kernel after another: Python cannot launch them fast enough",
        lost,
        found.lost_of,
        [
            share("of the window the GPU waits for a launch (inferred)", lost, found.gpu.source),
            share("is real work", as_frac(found.gpu.real_work_pct), found.gpu.real_work_source),
        ],
        "a batch twice as large takes about as long a tick",
        _FIXES,
        line.place if line else None,
    )


def of_the_batch(found: Signals) -> float:
    """Of the window: the model waits for launches that more rows to a kernel would hide (SK404)."""
    waits = _waits(found)
    return _named(found, _of_the_model_pct(waits) / 100) if _more_rows_would_hide_it(found, waits) else 0.0


def _named(found: Signals, lost: float) -> float:
    """It is inferred from what is left: not where more than it is not known at all."""
    unexplained_pct = found.gpu.unexplained_pct if found.gpu else 0.0
    return 0.0 if lost < WARNING_FRAC and 100 * lost < unexplained_pct else lost


def _more_rows_would_hide_it(found: Signals, waits: Mapping[str, float]) -> bool:
    """The kernels would grow with the batch, and hardly anything else makes the GPU idle."""
    if found.gpu is None or not grows_with_the_batch(found.gpu):
        return False
    told_pct = _of_the_model_pct(waits) + found.gpu.unexplained_pct
    return told_pct >= MOST_IDLE_FRAC * (found.gpu.idle_pct or 0.0)


def _of_the_model_pct(waits: Mapping[str, float]) -> float:
    return sum(waits.get(phase, 0.0) for phase in _WITH_THE_BATCH)


def _waits(found: Signals) -> dict[str, float]:
    """By phase, % of the window, without what is told elsewhere."""
    if found.gpu is None or split(found) or hides_the_rest(found) or starved(found):
        return {}
    launching = _own(found)
    if single_inference(found):
        beside_pct = 100 * launching_beside(found)
        launching = {**launching, "infer": 0.0, "other": launching.get("other", 0.0) - beside_pct}
    launching["other"] = launching.get("other", 0.0) - 100 * held_in_own_code_frac(found)
    launching = {phase: pct for phase, pct in launching.items() if pct > 0}
    whole_pct = sum(launching.values())
    gone_pct = 100 * held_frac(found) + found.without_core() * sum(found.host_pct[one] for one in launching)
    left = max(0.0, 1 - gone_pct / whole_pct) if whole_pct > 0 else 0.0
    return {phase: pct * left for phase, pct in launching.items()}


def _line(found: Signals, phase: str) -> LineShare | None:
    """What backward launches follows from forward; its own line says nothing."""
    made = found.top_line("forward") if phase == "backward" else None
    return made or found.top_line(phase)


def _own(found: Signals) -> dict[str, float]:
    """By phase. Between many reads a tick each launch finds the GPU empty: that is of the reads. What lies in
    a few lines of the user's own code is of those, or of the simulator or the wait for other processes that
    they are, and what the host computes in the model's calls is no launching."""
    launching = dict(found.gpu.launching_pct) if found.gpu else {}
    hot = {phase: 100 * frac for phase, frac in hot_launching(found).items()}
    hot["other"] = hot.get("other", 0.0) + 100 * (simulated_launching(found) + waiting_launching(found))
    taken = {**host_computes_pct(found), **hot}
    memory, copies = driver_memory_pct(found), found.hidden_copies_pct()
    for phase, pct in launching.items():
        copied_pct = max(0.0, copies[phase] - 100 * found.lost(phase))  # else they are told as idle
        other_pct = taken.get(phase, 0.0) + memory.get(phase, 0.0) + copied_pct
        launching[phase] = max(0.0, pct - other_pct)
    if found.reads_storm():
        return {phase: pct for phase, pct in launching.items() if phase not in ("other", "loss")}
    return launching


CAUSE = Cause(CODE, NAME, find)
