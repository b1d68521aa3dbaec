"""A simulator or a loader that no hook knows: a method called `step`, `advance` or `simulate`, or an iterator
(`__next__`, a generator called `__iter__`), under which the model is never called.

Told from looks alone. A trainer's own `step` has the model on its stacks and is none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from stoker.diagnose.places import MIN_SAMPLES, stack_of
from stoker.model.record import Line, Place, ProcessRecord, Sampled

_STEPS, _ITERATORS = (".step", ".advance", ".simulate"), ("__next__", "__iter__")
_ALSO_BARS = (".advance", ".simulate")
"""In a package it is no simulator as a rule: a bar of progress advances."""
_PACKAGE = re.compile(r"/(?:site|dist)-packages/")
MODEL_LOOKS_FRAC = 0.1
_MODEL = ("infer", "forward", "loss", "backward", "optim")


@dataclass(frozen=True, slots=True)
class OwnMethod:
    frac: float
    """Of the looks into `other`."""
    site: Place
    """The line that calls it most often."""
    lines: frozenset[Line] = frozenset()
    """All that were found below and at the lines that call it."""
    name: str = "step"
    """Without its class."""


def own_step(record: ProcessRecord) -> OwnMethod | None:
    return _own(record, _STEPS)


def own_loading(record: ProcessRecord) -> OwnMethod | None:
    return _own(record, _ITERATORS)


def _own(record: ProcessRecord, names: tuple[str, ...]) -> OwnMethod | None:
    training = [sample for sample in record.sampled if sample.stage == "train"]
    own = [sample for sample in training if sample.phase == "other"]
    total = sum(sample.count for sample in own)
    model = _of_the_model(training)
    callers: dict[str, Counter[Line]] = defaultdict(Counter)
    lines: dict[str, set[Line]] = defaultdict(set)
    for sample in own:
        stack = stack_of(sample)
        if (at := _innermost(stack, names, model)) is not None:
            caller, name = min(at + 1, len(stack) - 1), stack[at][2].rpartition(".")[2]
            callers[name][stack[caller]] += sample.count
            lines[name] |= set(stack[: caller + 1])
    if total < MIN_SAMPLES or not callers:
        return None
    name = max(callers, key=lambda name: callers[name].total())
    line = max(callers[name], key=callers[name].__getitem__)
    return OwnMethod(callers[name].total() / total, Place(line, line), frozenset(lines[name]), name)


def _of_the_model(looks: list[Sampled]) -> set[str]:
    """Functions under which the model is at work. (A look may fall between two phases, and be put into the
    wrong one: one of many says nothing.)"""
    every, model = Counter[str](), Counter[str]()
    for look in looks:
        functions = {function for _, _, function in stack_of(look)}
        every.update(dict.fromkeys(functions, look.count))
        if look.phase in _MODEL:
            model.update(dict.fromkeys(functions, look.count))
    return {function for function, count in model.items() if count >= MODEL_LOOKS_FRAC * every[function]}


def _innermost(stack: tuple[Line, ...], names: tuple[str, ...], model: set[str]) -> int | None:
    """Where in the stack the innermost of these methods is."""
    for at, (path, _, name) in enumerate(stack):
        other = name.endswith(_ALSO_BARS) and _PACKAGE.search(path)
        if name.endswith(names) and name not in model and not other:
            return at
    return None
