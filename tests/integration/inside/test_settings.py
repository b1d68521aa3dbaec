"""Settings of a script itself, in real trainings: which ones have an effect, and which ones only seem to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker.model.run import Run
from stoker.trials.knobs import Liveness, differences, liveness, parse_settings, prepare
from stoker.trials.knobs.effects import DEAD, UNSEEN

pytestmark = pytest.mark.slow


class Arms:
    """`settings.py` once as it is and once with a setting."""

    def __init__(self, forked: Callable[..., Any], script: Path, folder: Path) -> None:
        self.forked, self.script, self.folder = forked, script, folder
        self.config = folder / "train.json"
        self.config.write_text(json.dumps({"lr": 0.01, "momentum": 0.0}))

    def run(self, text: str) -> Run:
        words = ["--config", str(self.config)]
        prepared = prepare(parse_settings(text, words), words, {}, self.folder / text.replace("/", "_"))
        done = self.forked(self.script, *prepared.command, env=prepared.env)
        assert done.code == 0, done.err
        run: Run = done.summary.run
        return run

    def liveness(self, text: str) -> tuple[Liveness, Liveness]:
        """Judged by its run alone, and beside a run without it."""
        (setting,) = parse_settings(text, [])
        run, other = self.run(text), self.run("")
        return liveness(setting, run), liveness(setting, run, other)


@pytest.fixture
def arms(forked: Callable[..., Any], scripts: Path, tmp_path: Path) -> Arms:
    return Arms(forked, scripts / "settings.py", tmp_path)


@pytest.mark.parametrize(
    ("text", "alone", "compared"),
    [
        ("flag:--batch-size=16", True, True),
        ("flag:--num-workers=1", True, True),
        ("flag:--width=6", None, True),
        ("cfg:{config}:lr=0.05", True, True),
        ("env:OMP_NUM_THREADS=1", True, None),
    ],
)
def test_settings_the_script_follows(
    arms: Arms, text: str, alone: bool | None, compared: bool | None
) -> None:
    by_itself, beside = arms.liveness(text.format(config=arms.config))
    assert (by_itself.live, beside.live) == (alone, compared), (by_itself, beside)


def test_a_dead_flag(arms: Arms) -> None:
    _, beside = arms.liveness("flag:--depth=3")
    assert beside.live is None
    assert beside.reason.startswith(UNSEEN)
    assert differences(arms.run("flag:--depth=3"), arms.run("")) == {}


def test_a_dead_flag_whose_name_says_what_it_should_do(arms: Arms) -> None:
    by_itself, beside = arms.liveness("flag:--num-workers=1,flag:--prefetch-factor=9".partition(",")[2])
    assert by_itself.live is False
    assert beside.live is False
    assert "prefetch factor none" in beside.reason


def test_a_flag_that_is_clamped(arms: Arms) -> None:
    (setting,) = parse_settings("flag:--num-workers=64", [])
    clamped, full = arms.run("flag:--num-workers=64"), arms.run("flag:--num-workers=1")
    for found in (liveness(setting, clamped), liveness(setting, clamped, full)):
        assert found.live is False
        assert found.reason.startswith(DEAD)
        assert "num workers 1" in found.reason


def test_a_dead_key_of_a_file(arms: Arms) -> None:
    _, beside = arms.liveness(f"cfg:{arms.config}:momentum=0.9")
    assert beside.live is None
    assert beside.reason.startswith(UNSEEN)
    assert json.loads(arms.config.read_text()) == {"lr": 0.01, "momentum": 0.0}


def test_differences_name_what_changed(arms: Arms) -> None:
    found = differences(arms.run("flag:--width=6"), arms.run(""))
    assert found["parameters"] == ("Sequential 37", "Sequential 25")
    assert set(found) == {"parameters"}
