from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.diagnose.iteration import Iteration
from stoker.diagnose.recurring import known_periods
from stoker.model.record import Mark

Make = Any


def test_a_rollout_an_epoch_and_an_evaluation_have_periods(make: Make) -> None:
    record = make.training({"forward": 1.0})
    rollout = Iteration({0: 320.0, 1: 10.0}, 2048.0, True, 1.0)
    assert known_periods(record, None) == ()
    assert known_periods(record, rollout) == (320.0,)
    assert known_periods(record, Iteration({0: 1.0}, 0.0, True, 1.0)) == ()
    loaded = replace(record, loaders=(make.loader(length=100, batches=1201, epochs=12),))
    assert known_periods(loaded, rollout) == (100.0, 320.0)
    accumulating = replace(record, loaders=(make.loader(length=100, batches=4804, epochs=48),))
    assert known_periods(accumulating, None) == (25.0,)


def test_evaluations_at_even_distances(make: Make) -> None:
    record = make.training({"forward": 1.0})
    rows = [row.sums for row in record.seconds]
    even = [Mark(stage, rows[at]) for at in (10, 20, 30, 40) for stage in ("eval", "train")]
    assert known_periods(replace(record, marks=(*record.marks, *even)), None) == (200.0,)
    odd = [Mark("eval", rows[at]) for at in (10, 12, 40)]
    assert known_periods(replace(record, marks=(*record.marks, *odd)), None) == ()
