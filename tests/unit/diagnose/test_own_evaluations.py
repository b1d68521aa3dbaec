"""An evaluation of tensors in memory is told from training, and from a model asked in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.diagnose.test_own_steps import at, look

from stoker.diagnose.own_evaluations import OwnEvaluation, evaluated_at
from stoker.diagnose.own_evaluations import own_evaluation as told_of
from stoker.model.record import PHASES, Line, Place, ProcessRecord

ASKED = look("infer", at("Net.forward"), at("scores", 12), at("main", 40))
BESIDE = look("other", at("scores", 15), at("main", 40))
WAITED = look("sync", at("scores", 16), at("main", 40))
TRAINED = look("backward", at("learn"), at("main", 38), count=30)


def own_evaluation(record: ProcessRecord) -> OwnEvaluation | None:
    return told_of(record, {"infer": 20.0, "other": 10.0, "sync": 10.0, "backward": 60.0})


@pytest.fixture
def record(make: Any) -> ProcessRecord:
    found: ProcessRecord = make.training({"forward": 1.0})
    return replace(found, evaluated=(look("infer", at("scores", 12), at("main", 40), count=8),))


def test_all_that_happens_under_it_counts(record: ProcessRecord) -> None:
    found = own_evaluation(replace(record, sampled=(ASKED, BESIDE, WAITED, TRAINED)))
    assert found is not None
    assert (found.frac, found.looks) == (pytest.approx(0.4), 30)
    assert found.site.leaf == at("main", 40)
    assert (found.asked, found.model_frac) == (8, pytest.approx(2 / 3))


def test_a_look_that_took_it_for_a_call_with_gradients_changes_nothing(record: ProcessRecord) -> None:
    mistaken = replace(ASKED, phase="forward", count=4)
    found = own_evaluation(replace(record, sampled=(ASKED, mistaken, TRAINED)))
    assert found is not None
    assert found.looks == 14


def test_a_function_that_training_shares_is_told_by_who_calls_it(record: ProcessRecord) -> None:
    """`loss` is called by `scores`, without gradients, and more often by `learn`, with them."""
    asked = look("infer", at("Net.forward"), at("loss"), at("scores", 12), at("main", 40))
    record = replace(record, evaluated=(look("infer", at("loss"), at("scores", 12), at("main", 40)),))
    learnt = look("forward", at("Net.forward"), at("loss"), at("learn"), at("main", 38), count=30)
    found = own_evaluation(replace(record, sampled=(asked, learnt, TRAINED)))
    assert found is not None
    assert (found.looks, found.site.leaf) == (10, at("main", 40))


@pytest.mark.parametrize("forward", ["Net.forward", "forward"], ids=["", "before Python 3.11"])
def test_in_the_loop_itself_the_line_that_asks_is_told(record: ProcessRecord, forward: str) -> None:
    inline, beside = look("infer", at(forward), at("main", 40)), look("other", at("main", 41))
    record = replace(record, evaluated=(look("infer", at("main", 40)),))
    found = own_evaluation(replace(record, sampled=(inline, beside, TRAINED)))
    assert found is not None
    assert (found.looks, found.site.leaf, found.inline) == (10, at("main", 40), True)


def test_one_function_for_both_is_told_by_the_line_that_calls_it(record: ProcessRecord) -> None:
    """run_epoch(training_data, optimizer), and run_epoch(test_data) further down."""
    asked = look("infer", at("Net.forward"), at("run_epoch", 12), at("main", 40))
    beside = look("other", at("run_epoch", 15), at("main", 40))
    record = replace(record, evaluated=(look("infer", at("run_epoch", 12), at("main", 40)),))
    learnt = look("forward", at("Net.forward"), at("run_epoch", 12), at("main", 38), count=30)
    trained = look("backward", at("run_epoch", 17), at("main", 38), count=30)
    found = own_evaluation(replace(record, sampled=(asked, beside, learnt, trained)))
    assert found is not None
    assert (found.looks, found.site.leaf) == (20, at("main", 40))


def test_a_line_that_trains_too_is_none(record: ProcessRecord) -> None:
    """`predict` is called here with gradients and without; its line is the training's."""
    asked = look("infer", at("Net.forward"), at("main", 38))
    record = replace(record, evaluated=(look("infer", at("main", 38)),))
    assert own_evaluation(replace(record, sampled=(asked, TRAINED))) is None


def test_how_many_ticks_ask_a_model(record: ProcessRecord) -> None:
    idle, asking = record.ticks[0].phase_s, list(record.ticks[0].phase_s or ())
    asking[PHASES.index("infer")] = 0.1
    ticks = [replace(record.ticks[0], phase_s=tuple(asking) if n % 4 == 0 else idle) for n in range(40)]
    ticks += [replace(record.ticks[0], phase_s=None)] * 60
    found = own_evaluation(replace(record, sampled=(ASKED, TRAINED), ticks=tuple(ticks)))
    assert found is not None
    assert (found.ticks_frac, found.infer_frac) == (pytest.approx(0.25), 1.0)
    few = own_evaluation(replace(record, sampled=(ASKED, TRAINED), ticks=tuple(ticks[:19])))
    assert few is not None
    assert few.ticks_frac is None


@pytest.mark.parametrize(
    "also",
    [
        look("backward", at("scores"), at("main", 40)),
        look("optim", at("Net.learn"), at("scores"), at("main", 40)),
    ],
)
def test_in_a_function_that_trains_it_is_a_line(record: ProcessRecord, also: Any) -> None:
    found = own_evaluation(replace(record, sampled=(ASKED, TRAINED, also)))
    assert found is not None
    assert (found.site.leaf, found.inline) == (at("scores", 12), True)


def test_a_line_that_is_asked_with_gradients_more_often_is_none(record: ProcessRecord) -> None:
    learnt = look("forward", at("Net.forward"), at("scores", 12), at("main"), count=20)
    assert own_evaluation(replace(record, sampled=(ASKED, TRAINED, learnt))) is None


def test_a_teacher_beside_it_is_not_counted(record: ProcessRecord) -> None:
    """It is asked more often, and is never trained."""
    teacher = look("infer", at("Teacher.forward"), at("targets"), at("main", 37), count=40)
    found = own_evaluation(replace(record, sampled=(teacher, ASKED, TRAINED)))
    assert found is not None
    assert (found.looks, found.site.leaf) == (10, at("main", 40))
    assert found.frac == pytest.approx(0.2 * 10 / 50)
    assert own_evaluation(replace(record, sampled=(teacher, ASKED, TRAINED), evaluated=())) is None


@pytest.mark.parametrize(
    ("acting", "elsewhere"),
    [
        ((at("Agent.act"), at("main", 36)), (5, 5)),
        ((at("learn"), at("main", 38)), (0, 5)),  # a target, in the function that trains
        ((at("scores", 12), at("main", 40)), (0, 0)),  # the same function in both modes
    ],
)
def test_whether_it_acts_elsewhere(
    record: ProcessRecord, acting: tuple[Line, ...], elsewhere: tuple[int, int]
) -> None:
    acts = (look("infer", *acting, count=5),)
    found = own_evaluation(replace(record, sampled=(ASKED, TRAINED), acted=acts))
    assert found is not None
    assert (found.acts_elsewhere, found.asked_elsewhere) == elsewhere


def test_too_few_looks_or_another_stage_tell_nothing(record: ProcessRecord) -> None:
    few, before = replace(ASKED, count=4), replace(ASKED, stage="eval")
    assert own_evaluation(replace(record, sampled=(few, TRAINED))) is None
    assert own_evaluation(replace(record, sampled=(before, TRAINED))) is None


def library(function: str, line: int = 1) -> Line:
    return ("/lib/python3.11/site-packages/lib/engine.py", line, function)


LEARNS = replace(
    look("backward", library("learn"), library("fit", 7), at("main", 38), count=30),
    place=Place(library("learn"), at("main", 38)),
)


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        ((at("Net.forward"), at("scores", 12), at("main", 40)), Place(at("main", 40), at("main", 40))),
        (
            (at("Net.forward"), library("run"), at("handler", 21), library("fire"), *LEARNS.callers),
            Place(at("handler", 21), at("handler", 21)),
        ),
        (
            (at("Net.forward"), library("scores"), library("evaluate", 9), *LEARNS.callers),
            Place(library("evaluate", 9), at("main", 38)),
        ),
    ],
    ids=["the user calls it", "a library calls the user", "a library's own"],
)
def test_where_an_evaluation_kept_apart_is_begun(
    record: ProcessRecord, stack: tuple[Line, ...], place: Place
) -> None:
    seen = look("infer", *stack, stage="eval")
    assert evaluated_at(replace(record, sampled=(LEARNS, seen))) == place
    assert evaluated_at(replace(record, sampled=(LEARNS, replace(seen, count=3)))) is None
