"""A simulator that no hook knows is told from a trainer's own `step`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.own_steps import own_loading, own_step
from stoker.model.record import Line, Place, ProcessRecord, Sampled


def at(function: str, line: int = 1) -> Line:
    return ("/home/me/train.py", line, function)


def look(phase: str, *stack: Line, count: int = 10, stage: str = "train") -> Sampled:
    return Sampled(phase, stage, Place(stack[0], stack[0]), count, stack[1:])


@pytest.fixture
def record(make: Any) -> ProcessRecord:
    found: ProcessRecord = make.training({"forward": 1.0})
    return found


SIMULATED = look("other", at("Maze._moved"), at("Maze.step"), at("Mazes.step", 7), at("main"))
FORWARD = look("forward", at("Net.forward"), at("Agent.update"), at("main"))


def test_the_line_that_calls_the_innermost_step_is_named(record: ProcessRecord) -> None:
    rest = look("other", at("main", 30))
    found = own_step(replace(record, sampled=(SIMULATED, FORWARD, rest)))
    assert found is not None
    assert found.frac == pytest.approx(0.5)
    assert found.site.leaf == at("Mazes.step", 7)
    assert found.lines == {at("Maze._moved"), at("Maze.step"), at("Mazes.step", 7)}
    assert found.name == "step"


@pytest.mark.parametrize(
    ("method", "name"),
    [("Warehouse.advance", "advance"), ("Pond.simulate", "simulate"), ("Log.write", None), ("step", None)],
)
def test_a_simulator_has_one_of_some_names(record: ProcessRecord, method: str, name: str | None) -> None:
    simulated = look("other", at("Cart.slip"), at(method), at("Halls.play", 7), at("main"))
    found = own_step(replace(record, sampled=(simulated, FORWARD)))
    assert (found.name if found else None) == name


def test_names_are_told_apart(record: ProcessRecord) -> None:
    """What is told is of the one found most."""
    other = look("other", at("Pond.drift"), at("Pond.advance"), at("main", 9), count=26)
    mine = replace(SIMULATED, count=24)
    found = own_step(replace(record, sampled=(mine, other, FORWARD)))
    assert found is not None
    assert (found.name, found.frac, found.site.leaf) == ("advance", pytest.approx(0.52), at("main", 9))
    assert at("Maze.step") not in found.lines


def test_a_bar_of_progress_is_no_simulator(record: ProcessRecord) -> None:
    bar = ("/venv/lib/python3.12/site-packages/rich/progress.py", 1420, "Progress.advance")
    assert own_step(replace(record, sampled=(look("other", bar, at("main")), FORWARD))) is None
    simulator = (bar[0], 10, "Maze.step")
    assert own_step(replace(record, sampled=(look("other", simulator, at("main")), FORWARD))) is not None


def test_a_single_look_between_two_phases_does_not_make_a_simulator_the_models(record: ProcessRecord) -> None:
    stray = look("loss", at("Maze._moved"), at("Maze.step"), at("Mazes.step", 7), at("main"), count=1)
    looks = (replace(SIMULATED, count=19), stray, FORWARD)
    assert own_step(replace(record, sampled=looks)) is not None
    assert own_step(replace(record, sampled=(SIMULATED, replace(stray, count=5), FORWARD))) is None


def test_a_step_that_trains_is_none(record: ProcessRecord) -> None:
    trains = look("forward", at("Net.forward"), at("Trainer.step"), at("main"))
    beside = look("other", at("Trainer.log"), at("Trainer.step"), at("main"))
    assert own_step(replace(record, sampled=(trains, beside))) is None


def test_too_few_looks_or_another_stage_tell_nothing(record: ProcessRecord) -> None:
    few, before = replace(SIMULATED, count=4), replace(SIMULATED, stage="startup")
    assert own_step(replace(record, sampled=(few, FORWARD))) is None
    assert own_step(replace(record, sampled=(before, FORWARD))) is None


@pytest.mark.parametrize("method", ["Batches.__next__", "Batches.__iter__", "__next__"])
def test_an_iterator_is_loading_unless_it_trains(record: ProcessRecord, method: str) -> None:
    drawn = look("other", at("Signs.bent"), at(method, 20), at("main", 40))
    found = own_loading(replace(record, sampled=(drawn, FORWARD)))
    assert found is not None
    assert (found.frac, found.site.leaf) == (1.0, at("main", 40))
    trains = look("forward", at("Net.forward"), at(method, 22), at("main", 40))
    assert own_loading(replace(record, sampled=(drawn, trains))) is None
    assert own_loading(replace(record, sampled=(SIMULATED, FORWARD))) is None
