"""A single row of what is trained in batches, with its first axis or without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.model_inputs import inputs_within, one_row_frac
from stoker.model.record import ModelInput

TRAINED = {ModelInput(True, (64, 8)): 10}


def test_an_evaluation_is_no_acting() -> None:
    evaluated, acting = ModelInput(False, (64, 8), "eval"), ModelInput(False, (1, 8), "train")
    assert one_row_frac({**TRAINED, evaluated: 30, acting: 5}) == 1.0
    assert one_row_frac({**TRAINED, evaluated: 30}) == 0.0


def test_what_acts_in_eval_mode_counts_beside_a_target_network() -> None:
    acting, target = ModelInput(False, (1, 8), "eval"), ModelInput(False, (64, 8))
    assert one_row_frac({**TRAINED, acting: 80, target: 20}) == 0.8


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({(1, 8): 20}, 1.0),
        ({(8,): 20}, 1.0),
        ({(1, 8): 15, (64, 8): 5}, 0.75),
        ({(64, 8): 20}, 0.0),
        ({(1, 64, 8): 20}, 0.0),
        ({(1, 9): 20}, 0.0),
        ({(1, 8): 2}, None),
        ({}, None),
    ],
)
def test_how_much_is_asked_row_by_row(asked: dict[tuple[int, ...], int], told: float | None) -> None:
    shapes = {**TRAINED, **{ModelInput(False, shape): looks for shape, looks in asked.items()}}
    assert one_row_frac(shapes) == told


@pytest.mark.parametrize(
    ("shape", "mode", "told"),
    [
        ((1, 5), "train", 1.0),
        ((1, 5), "eval", 1.0),
        ((1, 5), "", 0.0),
        ((3, 5), "train", 0.0),
        ((1, 5, 5), "train", 0.0),
    ],
)
def test_a_model_that_is_trained_acts_on_single_rows_of_its_own(shape: Any, mode: str, told: float) -> None:
    """A critic was seen with gradients, whose input has the actions in it."""
    assert one_row_frac({**TRAINED, ModelInput(False, shape, mode): 20}) == told


def test_trained_row_by_row() -> None:
    shapes = {ModelInput(True, (1, 8)): 10, ModelInput(False, (1, 8)): 10}
    assert one_row_frac(shapes) is None


@pytest.mark.parametrize(("asked", "told"), [((1, 8), 1.0), ((8,), 1.0), ((4, 8), 0.0), ((1, 16, 8), 1.0)])
def test_trained_by_stretches_and_asked_step_by_step(asked: tuple[int, ...], told: float) -> None:
    shapes = {ModelInput(True, (64, 16, 8)): 10, ModelInput(False, asked): 10}
    assert one_row_frac(shapes) == told


def test_what_is_asked_before_the_window_does_not_count(make: Any) -> None:
    """A check of the validation set before training, say, when looks are many."""
    record = make.training({"forward": 1.0})
    early, late = ModelInput(False, (64, 8)), ModelInput(False, (1, 8))
    rows = tuple(
        replace(row, inputs=(early,) * 9 if n < 5 else (late,)) for n, row in enumerate(record.seconds)
    )
    record = replace(record, seconds=rows)
    start_s = rows[4].sums.t_s
    assert inputs_within(record, start_s, None) == {late: len(rows) - 5}
    assert inputs_within(record, None, start_s) == {early: 45}
