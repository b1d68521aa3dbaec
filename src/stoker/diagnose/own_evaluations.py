"""An evaluation that no loader and no name marks: a function under which the model is asked without
gradients, and never trained.

Told from looks alone; that the model which is trained is asked in eval mode the training process says itself.
A rollout that switches to eval mode looks the same: this is for trainings without an environment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from stoker.diagnose.places import MIN_SAMPLES, outside_forward, stack_of
from stoker.model.record import Line, Place, ProcessRecord, Sampled

_TRAINING = ("backward", "optim")
_MODEL = ("infer", "forward", "sync")
Function = tuple[str, str]


@dataclass(frozen=True, slots=True)
class OwnEvaluation:
    frac: float
    """Of all looks into the training."""
    looks: int
    site: Place
    """The line that calls it most often."""
    eval_looks: int
    """Into calls without gradients: those of the trained model in eval mode, and their share."""
    eval_frac: float
    model_frac: float
    """Of the looks under it: those in the model, or waiting for the GPU. The rest may be a simulator."""


def own_evaluation(record: ProcessRecord) -> OwnEvaluation | None:
    evaluated = record.evaluated.get(True, 0)
    looks = [(sample, stack_of(sample)) for sample in record.sampled if sample.stage == "train"]
    trains = {_function(line) for one, stack in looks if one.phase in _TRAINING for line in stack}
    asks = _asking(looks) - trains
    callers: dict[Line, int] = defaultdict(int)
    model = 0
    for sample, stack in looks:
        if (line := _caller(stack, asks)) is not None:
            callers[line] += sample.count
            model += sample.count * (sample.phase in _MODEL)
    found, total = sum(callers.values()), sum(sample.count for sample, _ in looks)
    if found < MIN_SAMPLES or not evaluated:
        return None
    line = max(callers, key=callers.__getitem__)
    eval_frac = evaluated / sum(record.evaluated.values())
    return OwnEvaluation(found / total, found, Place(line, line), evaluated, eval_frac, model / found)


def _asking(looks: Iterable[tuple[Sampled, tuple[Line, ...]]]) -> set[Function]:
    """Functions that call a model, most often without gradients: a look cannot always tell."""
    calls: dict[Function, int] = defaultdict(int)
    for sample, stack in looks:
        if stack and sample.phase in ("infer", "forward"):
            calls[_function(outside_forward(stack))] += sample.count * (1 if sample.phase == "infer" else -1)
    return {function for function, more in calls.items() if more > 0}


def _caller(stack: tuple[Line, ...], functions: set[Function]) -> Line | None:
    """The line outside of the outermost of them."""
    inside = [depth for depth, line in enumerate(stack) if _function(line) in functions]
    return stack[min(inside[-1] + 1, len(stack) - 1)] if inside else None


def _function(line: Line) -> Function:
    path, _, function = line
    return path, function
