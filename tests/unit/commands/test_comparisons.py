"""`stoker runs` and `stoker why` know comparisons, made here without a training."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.commands import main
from stoker.model.run import RunInfo
from stoker.store import folder as folders
from stoker.trials.ab import sessions
from stoker.trials.ab.answer import Turn
from stoker.trials.ab.journal import NAME, Journal
from stoker.trials.ab.measure import Arm, ArmMeasure
from stoker.trials.ab.plan import ArmPlan, Plan
from stoker.trials.ab.session import Interrupted, Session

COMMAND = ("/usr/bin/python", "train.py", "--epochs", "9")
PLAN = Plan(ArmPlan("as it is", COMMAND), ArmPlan("num_workers=8", COMMAND, "num_workers=8"), "/home/me")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def compared(day: str, trials: int | None = None) -> Path:
    """A comparison of this day that is twice as fast; interrupted after `trials`."""
    made = sessions.create(COMMAND)
    folder = made.rename(made.with_name(f"{day}-120000-train-{made.name[-6:]}"))

    def run_arm(turn: Turn) -> ArmMeasure:
        if trials is not None and 2 * (turn.pair - 1) + turn.order >= trials:
            raise Interrupted
        rate = (2.0 if turn.arm is Arm.B else 1.0) + turn.pair / 1000
        made = ArmMeasure(turn.arm, turn.pair, turn.order, took_s=30.0, steady=True)
        return replace(made, rates={"samples": rate}, folder=f"pair{turn.pair}-{turn.arm}-1")

    Session(PLAN, folder).run(run_arm)
    return folder


def ran(started_wall: float) -> Path:
    folder = folders.create(("python", "other.py"))
    info = RunInfo(
        id=folder.name, command=("python", "other.py"), cwd="/", started_wall=started_wall, started_s=0.0
    )
    folders.write_info(folder, replace(info, ended_s=5.0, exit_code=0))
    return folder


def last_written(folder: Path, at_s: float) -> None:
    os.utime(folder / NAME, (at_s, at_s))


def out(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_they_are_listed_below_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    ran(1000.0)
    first, second = compared("20261114"), compared("20261115", trials=3)
    broken = compared("20261116")
    (broken / NAME).write_text("{")
    shown = out(capsys, "runs")
    assert shown.startswith("1 run, 3 comparisons")
    assert max(map(len, shown.splitlines())) <= 80
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert "11-14 12:00" in lines[first.name[-6:]]
    assert "WIN x2" in lines[first.name[-6:]]
    assert "num_workers=8" in lines[first.name[-6:]]
    assert "no end" in lines[second.name[-6:]]
    assert "unreadable" in lines[broken.name[-6:]]
    rows = json.loads(out(capsys, "runs", "--json"))["comparisons"]
    assert [row["verdict"] for row in rows] == ["WIN", None, None]
    assert [row["trials"] for row in rows] == [6, 3, None]


def test_only_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    name = compared("20261114").name[-6:]
    shown = out(capsys, "runs")
    assert shown.startswith("0 runs, 1 comparison")
    assert f"next: stoker why {name}" in shown


def test_one_that_runs_is_not_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    made = [compared(day) for day in ("20261113", "20261114", "20261115", "20261116")]
    journal = Journal(made[0])
    assert "running" in out(capsys, "runs")
    told = out(capsys, "runs", "--prune", "1")
    journal.close()
    assert "removed 2 comparisons (" in told
    assert told.endswith("kept 1; 1 comparison still going on, left alone\n")
    assert [folder.exists() for folder in made] == [True, False, False, True]
    pruned = json.loads(out(capsys, "runs", "--prune", "0", "--json"))
    assert pruned["comparisons"]["removed"] == [made[0].name, made[3].name]


@pytest.mark.parametrize("how", ["name", "short", "path"])
def test_why_shows_its_page_again(capsys: pytest.CaptureFixture[str], how: str) -> None:
    ran(1000.0)
    folder = compared("20261114")
    names = {"name": folder.name, "short": folder.name[-6:], "path": str(folder)}
    shown = out(capsys, "why", names[how])
    assert "WIN: B is faster" in shown
    assert json.loads(out(capsys, "why", names[how], "--json"))["schema"] == "stoker.ab/1"


def test_bare_why_shows_what_was_last(capsys: pytest.CaptureFixture[str]) -> None:
    ran(1000.0)  # until 1005
    folder = compared("20261114")
    last_written(folder, 1004.0)
    assert "other.py" in out(capsys, "why")
    last_written(folder, 1006.0)
    assert "WIN: B is faster" in out(capsys, "why")
    assert "WIN: B is faster" in out(capsys, "why", "latest")


def test_an_unfinished_one_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    folder = compared("20261114", trials=3)
    shown = " ".join(out(capsys, "why").split())
    assert "No verdict yet (it was stopped before there was an answer)" in shown
    assert f"next: stoker ab --resume {folder.name[-6:]}" in shown
    journal = Journal(folder)
    assert "No verdict yet (it is still running)" in out(capsys, "why")
    journal.close()


def test_a_trial_is_named_by_its_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    folder = compared("20261114")
    assert f"next: stoker why {folder.name[-6:]}/pair3-B-1" in out(capsys, "why")
    trial = ran(1000.0).rename(folder / "pair3-B-1")
    assert "other.py" in out(capsys, "why", f"{folder.name[-6:]}/{trial.name}")
    assert main(["why", f"{folder.name[-6:]}/pair9-B-1"]) == 2


def test_what_only_runs_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    compared("20261114")
    assert main(["why", "--over-time"]) == 2
    assert "--over-time is for a run, and this is a comparison" in capsys.readouterr().err


def test_a_name_that_fits_nothing_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    folder = compared("20261114")
    assert main(["why", "zzz"]) == 2
    assert f"there are: {folder.name}" in capsys.readouterr().err


def test_a_name_that_fits_both_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    run, comparison = ran(1000.0), compared("20261114")
    assert main(["why", "-"]) == 2
    said = capsys.readouterr().err
    assert run.name in said
    assert comparison.name in said
