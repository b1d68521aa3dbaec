from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.sentence import sentence
from stoker.diagnose.summary import summarise
from stoker.model.host import CoreWait, HostRecord

Make = Any


def said(make: Make, shares: dict[str, float], **more: Any) -> str:
    return sentence(summarise(make.run(make.training(shares, **more))))


def test_the_model_leads_where_nothing_else_is_large(make: Make) -> None:
    text = said(make, {"forward": 0.4, "backward": 0.5, "data": 0.06, "other": 0.04})
    assert text == "The model takes 90 % of the training time. Nothing else takes more than 6 %."


def test_a_step_that_is_named_tells_no_model_apart(make: Make) -> None:
    text = said(make, {"other": 0.7, "gc": 0.3}, optimizers=("Strategy.tell()",))
    assert text.endswith("30 % goes to Python's garbage collector. No work of a model is told apart from it.")
    known = said(make, {"other": 0.6, "forward": 0.4}, optimizers=("Strategy.tell()",))
    assert known.endswith("The model takes 40 %.")


def test_a_thread_without_a_core_is_told_since_no_phase_shows_it(make: Make) -> None:
    training = make.training({"forward": 0.4, "backward": 0.6})
    rows = [CoreWait(training.began_s + at, training.pid, 0.6 * at, 0.4 * at) for at in range(600)]
    run = replace(make.run(training), host=HostRecord(core_waits=tuple(rows)))
    text = "For 40 % of that time its thread was ready to run and had no core."
    assert sentence(summarise(run)).endswith(text)
    few = [replace(row, waited_s_total=row.waited_s_total / 8) for row in rows]
    assert text[:4] not in sentence(summarise(replace(run, host=HostRecord(core_waits=tuple(few)))))


def test_a_wait_of_some_size_comes_second(make: Make) -> None:
    text = said(make, {"forward": 0.4, "backward": 0.45, "data": 0.13, "other": 0.02})
    assert text == "The model takes 85 % of the training time. 13 % goes to waiting for data."


def test_a_large_wait_leads_though_the_model_takes_more(make: Make) -> None:
    text = said(make, {"forward": 0.7, "env": 0.25, "other": 0.05}, env_steps_per_tick=2.0)
    assert text == (
        "25 % of the training time goes to the environment (40 env steps/s). The model takes 70 %."
    )


def test_acting_is_told_from_learning(make: Make) -> None:
    shares = {"infer": 0.5, "forward": 0.2, "backward": 0.25, "env": 0.05}
    assert said(make, shares, acting=0.48) == (
        "The model takes 95 % of the training time: 45 % learning, 50 % acting. "
        "Nothing else takes more than 5 %."
    )
    assert "45 % learning, 50 % without gradients." in said(make, shares, acting=0.1)


@pytest.mark.parametrize(
    ("looks", "text"),
    [
        ({("other", "a.py:1 f"): 90, ("other", "a.py:2 f"): 10}, "environment, most of it in a.py:1 f."),
        (
            {("other", "a.py:1 f"): 35, ("other", "a.py:2 f"): 33, ("other", "b.py:3 g"): 32},
            ", 14 % in a.py:1 f.",
        ),
        ({("other", f"a.py:{n} f"): 10 for n in range(10)}, "and the environment. The"),
    ],
    ids=["most", "some", "spread"],
)
def test_the_line_is_named_where_there_is_one(
    make: Make, looks: dict[tuple[str, str], int], text: str
) -> None:
    assert text in said(make, {"other": 0.4, "forward": 0.6}, sampled=make.looks(looks))


def test_loading_in_the_training_thread(make: Make) -> None:
    text = said(make, {"data": 0.6, "forward": 0.4}, loaders=(make.loader(num_workers=0),))
    assert text.startswith(
        "60 % of the training time goes to loading data in the training thread itself (num"
    )


def test_workers_that_could_deliver_enough_are_not_blamed(make: Make) -> None:
    fast = tuple(make.worker(n, wall_s=1.0) for n in (0, 1))
    text = said(make, {"data": 0.6, "forward": 0.4}, loaders=(make.loader(),), workers=fast)
    assert text == "60 % of the training time goes to waiting for data. The model takes 40 %."


def test_environment_without_updates(make: Make) -> None:
    text = sentence(summarise(make.run(make.rollouts({"env": 0.8, "infer": 0.2}))))
    assert text.startswith("No optimizer step was seen. The environment made 4,804 steps and took 77 %")
    assert text.endswith(", the model 19 %.")
