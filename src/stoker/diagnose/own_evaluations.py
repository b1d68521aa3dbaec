"""An evaluation that no loader and no name marks: a function under which the model that is trained is asked
in eval mode, without gradients, and nothing is trained.

Where it is asked so the training process says itself, once a second; how much of the time is under the
function that asks, looks tell. A rollout that switches to eval mode looks the same: this is for trainings
without an environment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from stoker.diagnose.places import MIN_SAMPLES, is_forward, stack_of
from stoker.model.record import Line, Place, ProcessRecord, Sampled

_TRAINING = ("backward", "optim")
_MODEL = ("infer", "forward", "sync")
Function = tuple[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwnEvaluation:
    frac: float
    """Of the window: its part of the looks into each phase, by the phase's exact share."""
    looks: int
    site: Place
    """The line that calls it most often."""
    asked: int
    """How often the model was found there in eval mode, looked at once a second."""
    model_frac: float
    """Of the looks under it: those in the model, or waiting for the GPU. The rest may be a simulator."""


def own_evaluation(record: ProcessRecord, phase_pct: Mapping[str, float]) -> OwnEvaluation | None:
    looks = [(sample, stack_of(sample)) for sample in record.sampled if sample.stage == "train"]
    trains = {_function(line) for one, stack in looks if one.phase in _TRAINING for line in stack}
    edges = ((one, _edge(stack_of(one), trains)) for one in record.evaluated)
    asked = _counted((edge[0], one.count) for one, edge in edges if edge)
    under: dict[Function, list[tuple[Sampled, Line]]] = {function: [] for function in asked}
    for one, stack in looks:
        if (edge := _edge(stack, trains)) and edge[0] in under:
            under[edge[0]].append((one, edge[1]))
    function = max(under, key=lambda name: sum(one.count for one, _ in under[name]), default=("", ""))
    phases = _counted((one.phase, one.count) for one, _ in under.get(function, ()))
    if phases.total() < MIN_SAMPLES or _is_shared(phases):
        return None
    every = _counted((one.phase, one.count) for one, _ in looks)
    ((line, _),) = _counted((caller, one.count) for one, caller in under[function]).most_common(1)
    return OwnEvaluation(
        frac=sum(phase_pct.get(phase, 0.0) / 100 * count / every[phase] for phase, count in phases.items()),
        looks=phases.total(),
        site=Place(line, line),
        asked=asked[function],
        model_frac=sum(phases[phase] for phase in _MODEL) / phases.total(),
    )


def _edge(stack: tuple[Line, ...], trains: set[Function]) -> tuple[Function, Line] | None:
    """The outermost function that trains nothing, and the line that calls it. None where there is none but
    the model's own."""
    inside = [depth for depth, line in enumerate(stack) if _function(line) not in trains]
    depth = inside[-1] if inside else len(stack)
    if depth + 1 >= len(stack) or is_forward(stack[depth]):
        return None
    return _function(stack[depth]), stack[depth + 1]


def _counted(counts: Iterable[tuple[T, int]]) -> Counter[T]:
    found: Counter[T] = Counter()
    for what, count in counts:
        found[what] += count
    return found


def _is_shared(phases: Counter[str]) -> bool:
    """Called for the training, too. (Some looks take a call without gradients for one with them.)"""
    return phases["forward"] > phases["infer"] / 2


def _function(line: Line) -> Function:
    path, _, function = line
    return path, function
