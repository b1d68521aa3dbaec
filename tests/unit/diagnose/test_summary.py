from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.summary import parse_total, summarise
from stoker.model.run import RunFailure

Make = Any
HALF = {"forward": 0.5, "data": 0.5}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("100000 ticks", (100000, "ticks")),
        ("100_000", (100000, "ticks")),
        ("5e6 env_steps", (5e6, "env_steps")),
        ("5000 steps", (5000, "ticks")),
        (" 90  EPOCHS ", (90, "epochs")),
        ("1.5e3samples", (1500, "samples")),
        ("0 ticks", None),
        ("-1", None),
        ("_", None),
        ("inf", None),
        ("1e999", None),
        ("ninety epochs", None),
        ("90 days", None),
        ("", None),
    ],
)
def test_total(text: str, found: tuple[float, str] | None) -> None:
    assert parse_total(text) == found


@pytest.mark.parametrize(
    ("words", "seconds", "unit"),
    [
        (["--max-steps", "2000"], 100.0, "ticks"),
        (["--max_steps=2_000"], 100.0, "ticks"),
        (["--total-timesteps", "1e4"], 125.0, "env_steps"),
        (["--epochs", "90", "--lr", "0.1"], 450.0, "epochs"),
        (["--max-steps", "-1", "--max_epochs=10"], 50.0, "epochs"),
        (["--max-steps", "inf"], None, ""),
        (["--max-steps", "nan"], None, ""),
        (["--epochs", "all"], None, ""),
        (["--epochs"], None, ""),
        (["--steps", "100"], None, ""),
    ],
)
def test_length_from_the_command(make: Make, words: list[str], seconds: float | None, unit: str) -> None:
    record = make.training(HALF, env_steps_per_tick=4.0, loaders=(make.loader(batches=1201),))
    summary = summarise(make.run(record, command=("python", "t.py", *words), ended_by="time-limit"))
    if seconds is None:
        assert summary.length is None
    else:
        assert summary.length is not None
        assert (summary.length.seconds, summary.length.unit) == (pytest.approx(seconds, rel=0.01), unit)


def test_a_training_that_came_to_its_end_needs_no_estimate(make: Make) -> None:
    record = make.training(HALF)
    command = ("python", "t.py", "--max-steps", "2000")
    assert summarise(make.run(record, command=command)).length is None
    assert summarise(make.run(record, command=command, total="4000 ticks")).length is not None
    failure = RunFailure("exit-code", "exit code 1")
    assert summarise(make.run(record, command=command, failure=failure)).length is not None


def test_epochs_count_the_ticks_made_of_a_batch(make: Make) -> None:
    """Four batches are accumulated for a tick: 100 batches an epoch are 25 ticks."""
    record = make.training(HALF, loaders=(make.loader(batches=4 * 1201),))
    length = summarise(make.run(record, total="40 epochs")).length
    assert length is not None
    assert length.seconds == pytest.approx(50.0)


def test_evaluation_and_saving_come_on_top(make: Make) -> None:
    record = make.training({"forward": 0.8, "save": 0.2})
    length = summarise(make.run(record, total="1200 ticks")).length
    assert length is not None
    assert length.seconds == pytest.approx(60.0 * 1.25)


def test_without_its_unit_there_is_no_estimate(make: Make) -> None:
    assert summarise(make.run(make.training(HALF), total="5e6 env_steps")).length is None
    assert summarise(make.run(make.training(HALF), total="9 epochs")).length is None


def test_throughput(make: Make) -> None:
    main = summarise(make.run(make.training(HALF, env_steps_per_tick=8.0))).main
    assert main is not None
    flow = main.throughput
    assert flow.ticks_per_s == pytest.approx(20.0)
    assert flow.samples_per_s == pytest.approx(640.0)
    assert flow.env_steps_per_s == pytest.approx(160.0)
    assert flow.updates_per_env_step == pytest.approx(1 / 8)
    assert flow.backwards_per_tick == pytest.approx(1.0)


def test_ranks_come_in_order_and_the_first_is_the_main_one(make: Make) -> None:
    ranks = [make.training(HALF, pid=10 + rank, rank=rank) for rank in (2, 0, 1)]
    helper = replace(ranks[0], pid=99, rank=None, seconds=())
    summary = summarise(make.run(*ranks, helper))
    assert [trainer.record.rank for trainer in summary.trainers] == [0, 1, 2]
    assert summary.main is summary.trainers[0]


def test_acting_is_a_part_of_infer(make: Make) -> None:
    main = summarise(make.run(make.training({"infer": 0.4, "env": 0.6}, acting=0.3))).main
    assert main is not None
    assert main.acting_pct == pytest.approx(30.0)
