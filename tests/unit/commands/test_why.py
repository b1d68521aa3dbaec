"""`stoker why`: the exit code of `--fail-on`, and the course of a run with `--over-time`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.commands import main
from stoker.commands import why as verb

Make = Any
LEARNING = {"forward": 0.3, "backward": 0.3, "gc": 0.4}
BUSY = {"forward": 0.45, "backward": 0.43, "gc": 0.12}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the project's folder, where `make demo` leaves a comparison behind."""
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("shares", "asked", "code"),
    [
        (LEARNING, "SK202", 1),
        (LEARNING, "sk202", 1),
        (LEARNING, "SK201", 0),
        (LEARNING, "warning", 1),
        (LEARNING, "critical", 1),
        (BUSY, "warning", 0),
        (BUSY, "SK202", 1),
    ],
)
def test_fails_on_what_was_asked(
    make: Make, monkeypatch: pytest.MonkeyPatch, shares: dict[str, float], asked: str, code: int
) -> None:
    monkeypatch.setattr(verb, "find", lambda name: name)
    monkeypatch.setattr(verb, "load", lambda folder: make.run(make.training(shares)))
    assert main(["why", "--json", "--fail-on", asked]) == code
    assert main(["why", "--json"]) == 0


def test_an_unknown_cause_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--fail-on", "SK9"]) == 2
    assert "SK201" in capsys.readouterr().err


@pytest.fixture
def recorded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "find", lambda name: name)
    monkeypatch.setattr(verb, "load", lambda folder: make.run(make.training(LEARNING)))


@pytest.mark.usefixtures("recorded")
def test_over_time_in_three_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--over-time"]) == 0
    page = capsys.readouterr().out
    assert "Nothing changed" in page
    assert "SK202" in page
    assert "The train stage in 10 stretches (equal parts)" in page
    assert max(map(len, page.splitlines())) <= 80
    assert main(["why", "--over-time", "--md"]) == 0
    assert "| from | ticks/s |" in capsys.readouterr().out
    assert main(["why", "--over-time", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["over_time"]
    assert told["sentence"].startswith("Nothing changed")
    assert [stretch["cause"] for stretch in told["stretches"]] == ["SK202"] * 10
    assert told["changes"] == []
    assert main(["why", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["over_time"] is None


@pytest.mark.usefixtures("recorded")
def test_over_time_fails_on_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--over-time", "--fail-on", "SK202"]) == 1
    assert main(["why", "--over-time", "--fail-on", "SK101"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("recorded")
def test_over_time_is_of_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--over-time", "--window", "60s"]) == 2
    assert "--over-time is of the whole training" in capsys.readouterr().err


def test_the_limits_between_classes_can_be_moved(
    make: Make, cards: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = cards.run(make, LEARNING, cards.record(cards.readings(40.0)), None)
    monkeypatch.setattr(verb, "find", lambda name: name)
    monkeypatch.setattr(verb, "load", lambda folder: run)
    said = []
    for limit in ([], ["--limit", "util_low_pct=20"]):
        assert main(["why", "--json", *limit]) == 0
        said.append(json.loads(capsys.readouterr().out)["class"]["name"])
    assert said == ["throughput/env-bound", "balanced"]
    assert main(["why", "--limit", "util=20"]) == 2
    assert "util_low_pct" in capsys.readouterr().err
