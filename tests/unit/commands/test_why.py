"""`stoker why --fail-on`: the exit code says whether a cause was found."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.commands import main
from stoker.commands import why as verb

Make = Any
LEARNING = {"forward": 0.3, "backward": 0.3, "gc": 0.4}
BUSY = {"forward": 0.45, "backward": 0.43, "gc": 0.12}


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
