from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.conclusion import conclusion, in_short
from stoker.diagnose.summary import summarise
from stoker.diagnose.verdict import verdict
from stoker.model.finding import Finding, Outcome, Severity, Verdict
from stoker.model.record import Place
from stoker.model.run import RunFailure

LINE = ("/home/me/train.py", 31, "act")
PLACE = Place(LINE, LINE)
FINDING = Finding(
    code="SK302",
    name="one inference per environment",
    says="the model is called for one environment at a time",
    severity=Severity.CRITICAL,
    recoverable_frac=0.5,
    recoverable_of="GPU idle time",
    evidence=(),
    confirm="",
    fixes=(),
    place=PLACE,
)


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (FINDING, "one inference per environment (SK302, train.py:31 act); without it about 2× as fast."),
        (replace(FINDING, place=None), "one inference per environment (SK302); without it about 2× as fast."),
        (
            replace(FINDING, recoverable_frac=None, no_ceiling="not counted"),
            "one inference per environment (SK302, train.py:31 act).",
        ),
        (
            replace(FINDING, place=None, recoverable_frac=0.93, by_workers=1.96),
            "one inference per environment (SK302); without it about 14.3× as fast, by workers at most 2×.",
        ),
    ],
)
def test_the_first_cause_is_named_with_its_line_and_what_it_costs(finding: Finding, text: str) -> None:
    second = replace(finding, code="SK202", name="garbage collector pauses")
    told = conclusion(Verdict(Outcome.CAUSES, "", (finding, second)), "/home/me")
    assert told == f"Most to gain: {text}"


def test_what_no_code_can_mend_is_said_so() -> None:
    told = conclusion(Verdict(Outcome.NOT_FIXABLE, "", (replace(FINDING, in_code=False),)), "/home/me")
    assert told.startswith("Not fixable in code: one inference")


def test_health_and_ignorance_are_told_too() -> None:
    assert conclusion(Verdict(Outcome.HEALTHY, "", (FINDING,)), "/") == "Healthy: leave it as it is."
    assert "cannot be told" in conclusion(Verdict(Outcome.CANNOT_TELL, "too short"), "/")


def test_it_follows_the_figures_of_a_training_and_of_nothing_else(make: Any) -> None:
    busy = summarise(make.run(make.training({"forward": 0.5, "backward": 0.5})))
    assert in_short(busy, verdict(busy)) == (
        "The model takes 100 % of the training time. Nothing else takes more than 1 %. "
        "Healthy: leave it as it is."
    )
    crashed = replace(
        busy, run=replace(busy.run, info=replace(busy.run.info, failure=RunFailure("exit-code", "exit 1")))
    )
    assert in_short(crashed, verdict(crashed)).endswith("1 %. Until it ended nothing held it up.")
    nothing = summarise(make.run())
    assert in_short(nothing, verdict(nothing)) == "No PyTorch training was seen in this command."
