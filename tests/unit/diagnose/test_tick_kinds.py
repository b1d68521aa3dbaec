"""Where no optimizer steps, an env call is the tick, or a backward pass."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.summary import summarise
from stoker.diagnose.tick_kinds import TickKind, tick_kind
from stoker.model.record import Mark
from stoker.report import run_json, run_page, text

Make = Any
SHARES = {"env": 0.8, "infer": 0.2}
BACKWARD = ("backward", "train.py:6 train")


def test_speed_in_env_calls(make: Make) -> None:
    main = summarise(make.run(make.rollouts(SHARES))).main
    assert main is not None
    assert main.tick_kind is TickKind.ENV_CALL
    assert (main.window.content.ticks, main.window.content.env_steps) == (1201, 4804)
    assert main.throughput.ticks_per_s == pytest.approx(1201 / 62)  # from the first event on
    assert main.throughput.updates_per_env_step is None
    assert main.throughput.backwards_per_tick is None


def test_what_came_before_the_first_env_call_is_startup(make: Make) -> None:
    record = make.rollouts(SHARES)
    late = tuple(replace(s, env_calls=max(0, s.env_calls - 201)) for s in record.seconds)
    main = summarise(make.run(replace(record, seconds=late))).main
    assert main is not None
    assert main.window.content.ticks == 1000
    assert main.throughput.ticks_per_s == pytest.approx(20.0)
    assert main.stages_s == {"startup": pytest.approx(13.0), "train": pytest.approx(50.0)}


def test_an_evaluation_among_them_is_left_out(make: Make) -> None:
    record = make.rollouts(SHARES)
    marks = (Mark("eval", record.seconds[30].sums), Mark("startup", record.seconds[40].sums))
    main = summarise(make.run(replace(record, marks=marks))).main
    assert main is not None
    assert main.stages_s["eval"] == pytest.approx(10.0)
    assert main.window.content.ticks == 1001


def test_page_and_json_name_the_unit(make: Make) -> None:
    summary = summarise(make.run(make.rollouts(SHARES)))
    page = text.plain(run_page.build(summary))
    assert "(1,201 env calls in 62.0 s)" in page
    assert "19.4 env calls/s (a tick here; too short to be sure) · 77.5 env steps/s" in " ".join(page.split())
    assert "ticks" not in page
    assert json.loads(run_json.render(summary))["trainers"][0]["window"]["tick"] == "env call"


def test_with_an_optimizer_env_calls_are_no_ticks(make: Make) -> None:
    record = make.training(SHARES, env_steps_per_tick=1.0)
    calls = tuple(replace(second, env_calls=second.sums.env_steps) for second in record.seconds)
    summary = summarise(make.run(replace(record, seconds=calls)))
    assert summary.main is not None
    assert summary.main.tick_kind is TickKind.OPTIMIZER_STEP
    assert json.loads(run_json.render(summary))["trainers"][0]["window"]["tick"] == "optimizer step"
    assert tick_kind(make.training(SHARES)) is TickKind.OPTIMIZER_STEP


def by_hand(make: Make) -> Any:
    """A training whose weights no optimizer of torch's changes: all of it is startup to its process."""
    plain = make.training({"forward": 0.1, "backward": 0.4, "other": 0.5})
    rows = tuple(
        replace(row, sums=replace(row.sums, ticks=0, backwards=row.sums.ticks)) for row in plain.seconds
    )
    looks = tuple(
        replace(look, stage="startup") for look in make.looks({("other", "train.py:7 sgd"): 90, BACKWARD: 90})
    )
    nothing: dict[str, Any] = {"marks": (), "ticks": (), "optimizers": (), "optimizer_steps": ()}
    return replace(plain, seconds=rows, sampled=looks, sequence=(), **nothing)


def test_without_optimizer_and_environment_a_backward_pass_is_the_tick(make: Make) -> None:
    summary = summarise(make.run(by_hand(make)))
    main = summary.main
    assert main is not None
    assert main.tick_kind is TickKind.BACKWARD_PASS
    assert main.window.content.ticks == 1201
    assert main.stages_s["train"] == pytest.approx(62.0)
    page = " ".join(text.plain(run_page.build(summary)).split())
    assert "48 % of the training time goes to Python code" in page
    assert "what changes the weights is a part of it" in page
    assert "(1,201 backward passes in 62.0 s)" in page
    assert "a tick is a backward pass" in page
    assert "never looked at" not in page
    assert json.loads(run_json.render(summary))["trainers"][0]["window"]["tick"] == "backward pass"


def test_backward_passes_are_known_where_an_evaluation_begins_and_ends(make: Make) -> None:
    record = by_hand(make)
    late = replace(record.seconds[30].sums, t_s=record.seconds[30].sums.t_s + 0.5, backwards=611)
    marks = (Mark("eval", late), Mark("startup", replace(late, t_s=late.t_s + 0.25)))
    main = summarise(make.run(replace(record, marks=marks))).main
    assert main is not None
    assert main.stages_s["eval"] == pytest.approx(0.25)
    assert main.window.content.ticks == 1201
