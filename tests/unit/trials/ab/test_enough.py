"""When a trial may be ended, asked with the seconds since its start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.trials.ab.enough import Enough
from stoker.trials.ab.plan import CONFIRMING, SCREENING, windows_of

WINDOWS = windows_of(2.0)


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    return tmp_path


def ticked(trial: Path, ticks: int) -> None:
    row = json.dumps({"ticks": ticks, "env_steps": 0, "k": "second"}, separators=(",", ":"))
    (trial / "inside" / "7-0.jsonl").write_text(row + "\n")


def test_without_a_tick_it_is_given_up(trial: Path) -> None:
    enough = Enough(trial, WINDOWS, 60.0)
    assert [enough(at_s) for at_s in (1.0, 59.0, 61.0)] == [False, False, True]
    assert enough.gave_up == "no training step within 60 s"


def test_a_full_look_is_due_after_a_window_and_then_rarely(
    trial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    monkeypatch.setattr(Enough, "_is_steady", lambda self: bool(looks.append(True)))
    enough = Enough(trial, WINDOWS, 60.0)
    ticked(trial, 500)
    answers = [enough(float(at_s)) for at_s in range(5, 40)]
    assert answers.index(True) == WINDOWS.max_s  # not steady by then: it is ended all the same
    assert 3 <= len(looks) <= 10
    assert enough.gave_up == ""


def test_a_trial_that_is_made_again_begins_anew(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Enough, "_is_steady", lambda self: True)
    enough = Enough(trial, WINDOWS, 60.0)
    ticked(trial, 500)
    assert [enough(at_s) for at_s in (10.0, 13.0)] == [False, True]
    assert [enough(at_s) for at_s in (2.0, 3.0, 5.0)] == [False, False, True]


@pytest.mark.parametrize(
    ("seconds", "name", "ticks"), [(4.0, "short", 20), (30.0, "screening", 100), (60.0, "confirming", 200)]
)
def test_a_window_of_the_users_own(seconds: float, name: str, ticks: int) -> None:
    found = windows_of(seconds)
    assert (found.name, found.min_s, found.min_ticks) == (name, seconds, ticks)
    assert found.max_s > seconds
    assert windows_of(45.0) == CONFIRMING
    assert windows_of(20.0).min_ticks == SCREENING.min_ticks
