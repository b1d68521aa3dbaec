"""A single row of what is trained in batches, with its first axis or without."""

from __future__ import annotations

import pytest

from stoker.diagnose.model_inputs import one_row_frac
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


def test_trained_row_by_row() -> None:
    shapes = {ModelInput(True, (1, 8)): 10, ModelInput(False, (1, 8)): 10}
    assert one_row_frac(shapes) is None


@pytest.mark.parametrize(("asked", "told"), [((1, 8), 1.0), ((8,), 1.0), ((4, 8), 0.0), ((1, 16, 8), 1.0)])
def test_trained_by_stretches_and_asked_step_by_step(asked: tuple[int, ...], told: float) -> None:
    shapes = {ModelInput(True, (64, 16, 8)): 10, ModelInput(False, asked): 10}
    assert one_row_frac(shapes) == told
