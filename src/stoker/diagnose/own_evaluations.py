"""An evaluation that no loader and no name marks: a function under which the model is asked without
gradients, and never trained.

Told from looks alone; that the model which is trained is asked in eval mode the training process says itself.
A rollout that switches to eval mode looks the same: this is for trainings without an environment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from stoker.diagnose.places import MIN_SAMPLES, stack_of
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
    looks = [(sample, stack_of(sample)) for sample in record.sampled if sample.stage == "train"]
    trains = {_function(line) for one, stack in looks if one.phase in _TRAINING for line in stack}
    found = [(one, stack[:depth], stack[depth]) for one, stack in looks if (depth := _edge(stack, trains))]
    asks = _asking((one, _function(inside[-1])) for one, inside, _ in found)
    under = [(one, caller) for one, inside, caller in found if _function(inside[-1]) in asks]
    count, total = sum(one.count for one, _ in under), sum(one.count for one, _ in looks)
    evaluated = record.evaluated.get(True, 0)
    if count < MIN_SAMPLES or not evaluated:
        return None
    callers: dict[Line, int] = defaultdict(int)
    for one, caller in under:
        callers[caller] += one.count
    line = max(callers, key=callers.__getitem__)
    return OwnEvaluation(
        frac=count / total,
        looks=count,
        site=Place(line, line),
        eval_looks=evaluated,
        eval_frac=evaluated / sum(record.evaluated.values()),
        model_frac=sum(one.count for one, _ in under if one.phase in _MODEL) / count,
    )


def _edge(stack: tuple[Line, ...], trains: set[Function]) -> int:
    """The depth of the innermost line from which on outwards all are of functions that train, too; 0 where
    there is no function in between, or but the model's own."""
    inside = [depth for depth, line in enumerate(stack) if _function(line) not in trains]
    edge = inside[-1] + 1 if inside else 0
    return edge if 0 < edge < len(stack) and not stack[edge - 1][2].endswith(".forward") else 0


def _asking(calls: Iterable[tuple[Sampled, Function]]) -> set[Function]:
    """Under which the model is called most often without gradients: a look cannot always tell."""
    more: dict[Function, int] = defaultdict(int)
    for sample, function in calls:
        if sample.phase in ("infer", "forward"):
            more[function] += sample.count * (1 if sample.phase == "infer" else -1)
    return {function for function, calls_more in more.items() if calls_more > 0}


def _function(line: Line) -> Function:
    path, _, function = line
    return path, function
