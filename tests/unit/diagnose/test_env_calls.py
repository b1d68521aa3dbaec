"""Environments behind one env call, with evaluations that step one environment alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.env_calls import envs_per_call
from stoker.diagnose.summary import summarise
from stoker.model.record import Mark, ProcessRecord

Make = Any
EVALUATED = range(20, 30)


def with_env_calls(make: Make, *, evaluated: bool) -> ProcessRecord:
    """Two environments to a call, one call to a tick; 400 steps in every second of an evaluation."""
    record = make.training({"env": 0.5, "forward": 0.5}, env_steps_per_tick=2.0)
    rows, extra = [], 0
    for second, row in enumerate(record.seconds):
        extra += 400 if evaluated and second - 1 in EVALUATED else 0
        done = replace(row.sums, env_steps=row.sums.env_steps + extra)
        rows.append(replace(row, sums=done, env_calls=row.sums.ticks + extra))
    begins, ends = rows[EVALUATED.start].sums, rows[EVALUATED.stop].sums
    marks = (*record.marks, Mark("eval", begins), Mark("train", ends)) if evaluated else record.marks
    cycle = (("e", 1), (0, 1)) * 400
    return replace(record, seconds=tuple(rows), marks=marks, sequence=cycle)


@pytest.mark.parametrize("evaluated", [False, True])
def test_those_of_evaluations_do_not_count(make: Make, evaluated: bool) -> None:
    record = with_env_calls(make, evaluated=evaluated)
    assert envs_per_call(record) == pytest.approx(2.0)
    main = summarise(make.run(record)).main
    assert main is not None
    assert main.throughput.updates_per_env_step == pytest.approx(0.5)


def test_evaluations_in_every_second_leave_the_mean_of_all(make: Make) -> None:
    record = with_env_calls(make, evaluated=True)
    always = replace(record, marks=(*record.marks[:1], Mark("eval", record.seconds[0].sums)))
    last = record.seconds[-1]
    assert envs_per_call(always) == pytest.approx(last.sums.env_steps / last.env_calls)


def test_without_environments_it_is_not_known(make: Make) -> None:
    assert envs_per_call(make.training({"forward": 1.0})) is None
