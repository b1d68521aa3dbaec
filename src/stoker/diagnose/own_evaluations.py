"""An evaluation that no loader and no name marks: a function under which the model that is trained is asked
in eval mode, without gradients, and nothing is trained. Written out in the loop itself it is a line of which
that holds, and then only that line counts.

Where it is asked so the training process says itself, once a second; how much of the time is under the
function that asks, looks tell. A rollout that switches to eval mode looks the same: beside an environment
this is told only where the model acts elsewhere, in a function that trains nothing either, in training mode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from stoker.diagnose.places import MIN_SAMPLES, is_forward, stack_of
from stoker.model.record import PHASES, Line, Place, ProcessRecord, Sampled

_TRAINING = ("backward", "optim")
_MODEL = ("infer", "forward", "sync")
_INFER = PHASES.index("infer")
_TOLD_MIN = 20
"""Ticks whose phases were told apart: fewer do not say how often a model is asked."""
Function = tuple[str, str]
Asked = Function | Line
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
    inline: bool = False
    """A line of the loop itself."""
    infer_frac: float = 1.0
    """Of the looks into calls without gradients: those under it."""
    ticks_frac: float | None = None
    """Of the ticks: those in which some model is asked without gradients; None if too few were told apart."""
    acts_elsewhere: int = 0
    """How often it was found in training mode in another function that trains nothing, once a second."""
    asked_elsewhere: int = 0
    """The same anywhere else: for a target, say, by what trains."""


def own_evaluation(record: ProcessRecord, phase_pct: Mapping[str, float]) -> OwnEvaluation | None:
    looks = [(sample, stack_of(sample)) for sample in record.sampled if sample.stage == "train"]
    edge = _Edges(looks)
    edges = ((one, edge(stack_of(one))) for one in record.evaluated)
    asked = _counted((found[0], one.count) for one, found in edges if found)
    acted = [(edge.function_in(stack_of(one)), one.count) for one in record.acted]
    under: dict[Asked, list[tuple[Sampled, Line]]] = {what: [] for what in asked}
    for one, stack in looks:
        if (found := edge(stack)) and found[0] in under:
            under[found[0]].append((one, found[1]))
    what = max(under, key=lambda name: sum(one.count for one, _ in under[name]), default=("", ""))
    phases = _counted((one.phase, one.count) for one, _ in under.get(what, ()))
    every = _counted((one.phase, one.count) for one, _ in looks)
    if phases.total() < MIN_SAMPLES or _is_shared(phases):
        return None
    ((line, _),) = _counted((caller, one.count) for one, caller in under[what]).most_common(1)
    return OwnEvaluation(
        frac=sum(phase_pct.get(phase, 0.0) / 100 * count / every[phase] for phase, count in phases.items()),
        looks=phases.total(),
        site=Place(line, line),
        asked=asked[what],
        model_frac=sum(phases[phase] for phase in _MODEL) / phases.total(),
        inline=line == what,
        infer_frac=phases["infer"] / every["infer"] if every["infer"] else 0.0,
        ticks_frac=asked_ticks_frac(record),
        acts_elsewhere=sum(count for found, count in acted if found and found[0] not in asked),
        asked_elsewhere=sum(count for found, count in acted if not found or found[0] not in asked),
    )


def evaluated_at(record: ProcessRecord) -> Place | None:
    """Of evaluations that are a stage of their own: the line that calls them most often. Where that is a
    library's, the user's line within; or the library's own evaluation, and the user's line that led there.
    None where looks are too few."""
    edge = _Edges([(one, stack_of(one)) for one in record.sampled if one.stage == "train"])
    own = {one.place.user[0] for one in record.sampled if one.place.user}
    looks = [(edge.told(stack_of(one), own), one.count) for one in record.sampled if one.stage == "eval"]
    places = _counted((place, count) for place, count in looks if place is not None)
    return places.most_common(1)[0][0] if places.total() >= MIN_SAMPLES else None


class _Edges:
    """Where a stack leaves what trains."""

    def __init__(self, looks: list[tuple[Sampled, tuple[Line, ...]]]) -> None:
        training = [stack for one, stack in looks if one.phase in _TRAINING]
        learning = [stack for one, stack in looks if one.phase == "forward"]
        self.functions = {_function(line) for stack in training for line in stack}
        self.lines = {line for stack in training + learning for line in stack}

    def __call__(self, stack: tuple[Line, ...]) -> tuple[Asked, Line] | None:
        return self.function_in(stack) or self._line_in(stack)

    def function_in(self, stack: tuple[Line, ...]) -> tuple[Function, Line] | None:
        """The outermost function that trains nothing, and the line that calls it. None where there is none
        but the model's own."""
        depth = self._depth_in(stack)
        return None if depth is None else (_function(stack[depth]), stack[depth + 1])

    def _depth_in(self, stack: tuple[Line, ...]) -> int | None:
        inside = [depth for depth, line in enumerate(stack) if _function(line) not in self.functions]
        depth = inside[-1] if inside else len(stack)
        return None if depth + 1 >= len(stack) or is_forward(stack[depth]) else depth

    def told(self, stack: tuple[Line, ...], own: set[str]) -> Place | None:
        """The line to show; `own`: the user's files."""
        if (depth := self._depth_in(stack)) is None:
            found = self._line_in(stack)
            return Place(found[1], found[1]) if found else None
        caller, within = stack[depth + 1], (line for line in reversed(stack[: depth + 1]) if line[0] in own)
        line = caller if caller[0] in own else next(within, None)
        if line is not None and not is_forward(line):
            return Place(line, line)
        return Place(stack[depth], next((line for line in stack[depth + 1 :] if line[0] in own), None))

    def _line_in(self, stack: tuple[Line, ...]) -> tuple[Line, Line] | None:
        """The outermost line that trains nothing, of a function that does."""
        line = next((line for line in reversed(stack) if line not in self.lines), None)
        return (line, line) if line is not None and _function(line) in self.functions else None


def asked_ticks_frac(record: ProcessRecord) -> float | None:
    told = [tick.phase_s for tick in record.ticks if tick.phase_s is not None]
    return sum(spent[_INFER] > 0 for spent in told) / len(told) if len(told) >= _TOLD_MIN else None


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
