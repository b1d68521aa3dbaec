"""The last line of a page: the command that is the most use after what was found."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.diagnose.test_causes import FOUND

from stoker.diagnose.summary import Summary, summarise
from stoker.diagnose.verdict import judge, verdict
from stoker.model.deep import DeepNote
from stoker.model.finding import Outcome, Verdict
from stoker.model.run import Run, RunFailure
from stoker.report import run_page, text
from stoker.report.next_step import next_command

Make = Any
BUSY = {"forward": 0.4, "backward": 0.5, "optim": 0.06, "data": 0.03, "other": 0.01}
LOADING = {"data": 0.45, "forward": 0.2, "backward": 0.29, "optim": 0.04, "other": 0.02}
COMMAND = ("python", "train.py", "--lr", "0.1")
DEEPER = "stoker run --deep -- python train.py --lr 0.1"
FAILED = RunFailure("exit-code", "exit code 1")


def found(code: str) -> Verdict:
    return judge(FOUND[code])


def summary(make: Make, **info: Any) -> Summary:
    return summarise(make.run(make.training(BUSY), **{"command": COMMAND, **info}))


def starved(make: Make, **info: Any) -> Run:
    record = make.training(
        LOADING, loaders=(make.loader(),), workers=(make.worker(0), make.worker(1)), seconds=60
    )
    run: Run = make.run(record, **{"command": COMMAND, "ended_by": "time-limit", **info})
    return run


def last_line(run: Run) -> str:
    return text.plain(run_page.build(summarise(run))).splitlines()[-1]


def test_a_knob_is_tried_out_with_the_runs_own_command(make: Make) -> None:
    assert last_line(starved(make)).startswith(
        "next: stoker ab --b num_workers=4 -- python train.py --lr 0.1"
    )


def test_a_long_command_has_a_line_of_its_own(make: Make) -> None:
    command = ("python", "train.py", "--config", "configs/resnet50_imagenet.yaml", "--epochs", "90")
    page = text.plain(run_page.build(summarise(starved(make, command=command))))
    assert page.endswith(
        "next: stoker ab --b num_workers=4 -- \\\n"
        "      python train.py --config configs/resnet50_imagenet.yaml --epochs 90\n"
    )
    typed = page.partition("next: ")[2].replace("\\\n", " ")
    assert shlex.split(typed) == ["stoker", "ab", "--b", "num_workers=4", "--", *command]
    assert max(map(len, page.splitlines())) <= 80


def test_a_longer_command_is_broken_between_words(make: Make) -> None:
    command = ("python", "-m", "humanoid.train", "--task", "a walk; then 'run'", *(["--flag", "v" * 20] * 8))
    page = text.plain(run_page.build(summarise(starved(make, command=command))))
    asked = page.partition("next: ")[2]
    assert len(asked.splitlines()) == 6
    assert shlex.split(asked.replace("\\\n", " ")) == ["stoker", "ab", "--b", "num_workers=4", "--", *command]
    assert max(map(len, page.splitlines())) <= 80


def test_what_was_said_of_the_training_is_said_again(make: Make) -> None:
    info = {"named": ("--env=sim:World.step", "--eval=train:judge"), "total": "5000 ticks"}
    asked = text.plain(run_page.build(summarise(starved(make, **info)))).partition("next: ")[2]
    assert shlex.split(asked.replace("\\\n", " ")) == shlex.split(
        "stoker ab --b num_workers=4 --env=sim:World.step --eval=train:judge '--total=5000 ticks' -- "
    ) + list(COMMAND)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(90, "stoker ab --b"), (60, "stoker ab --quick --b"), (25, "stoker explain")]
)
def test_a_training_that_ends_by_itself_is_shorter_where_it_is_faster(
    make: Make, seconds: int, expected: str
) -> None:
    """Without its wait for data it takes 60 % of the time, and a trial needs 45 s, or 20 s with --quick."""
    loaded = {"loaders": (make.loader(),), "workers": (make.worker(0), make.worker(1))}
    run = make.run(make.training(LOADING, seconds=seconds, **loaded), command=COMMAND, ended_by="itself")
    assert last_line(run).startswith(f"next: {expected}")


def test_what_the_shell_would_read_otherwise_is_quoted(make: Make) -> None:
    command = ("python", "my train.py", "--note", "a'b;c")
    line = last_line(starved(make, command=command)).removeprefix("next: ").partition("   ")[0]
    assert shlex.split(line)[-4:] == list(command)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--name", "x" * 73),
        ("python", "train.py", *["a"] * 180),
        ("python", "train.py", "\x1b[2J"),
        ("python", "é\u202ex"),
    ],
)
def test_what_could_not_be_typed_again_is_not_offered(make: Make, command: tuple[str, ...]) -> None:
    line = last_line(starved(make, command=command))
    assert line == "next: stoker explain SK102   what it is, and what helps"


@pytest.mark.parametrize("info", [{"settings": ("num_workers=4",)}, {"ended_s": None, "ended_by": None}])
def test_not_beside_a_run_that_lives_nor_on_top_of_settings(make: Make, info: dict[str, Any]) -> None:
    assert last_line(starved(make, **info)).startswith("next: stoker explain SK102")


@pytest.mark.parametrize("code", ["SK201", "SK301", "SK501"])
def test_what_no_knob_mends_is_explained(make: Make, code: str) -> None:
    assert next_command(summary(make), found(code)).command == f"stoker explain {code}"


@pytest.mark.parametrize(
    ("outcome", "would_tell", "expected"),
    [
        (Outcome.CANNOT_TELL, "stoker run --deep -- …: which kernels", DEEPER),
        (Outcome.HEALTHY, "whether it could be less; stoker run --deep -- …", DEEPER),
        (Outcome.CANNOT_TELL, "stoker doctor says what can be measured here", "stoker doctor"),
        (Outcome.CANNOT_TELL, "a longer run gives more lines", "stoker why 0a1b2c --json"),
        (Outcome.HEALTHY, "", "stoker why 0a1b2c --json"),
    ],
)
def test_what_would_tell(make: Make, outcome: Outcome, would_tell: str, expected: str) -> None:
    told = Verdict(outcome, "", (), would_tell)
    assert next_command(summary(make), told).command == expected


def test_a_deep_window_that_was_taken_is_not_asked_for_again(make: Make) -> None:
    deep = DeepNote("taken", "asked", start_s=1010.0, end_s=1011.0, ticks=20, file="none.tsv")
    run = make.run(make.training(BUSY, deep=deep), command=COMMAND)
    told = Verdict(Outcome.CANNOT_TELL, "", (), "stoker run --deep -- …")
    assert next_command(summarise(run), told).command == "stoker why 0a1b2c --json"


def test_a_run_that_failed_has_other_worries(make: Make) -> None:
    failed = {"failure": FAILED, "exit_code": 1}
    assert last_line(starved(make, **failed)).startswith("next: stoker why 0a1b2c --json")
    stopped = {"failure": replace(FAILED, kind="interrupted"), "ended_by": "signal-from-user"}
    assert last_line(starved(make, **stopped)).startswith("next: stoker ab --b num_workers=4")


def test_a_short_run_is_made_longer_first(make: Make) -> None:
    record = make.training(LOADING, seconds=12, loaders=(make.loader(),), workers=(make.worker(0),))
    run = make.run(record, command=COMMAND, ended_by="time-limit")
    assert last_line(run).startswith("next: stoker run --for 60s -- python train.py --lr 0.1")


def test_a_speed_that_moved_is_followed_first(make: Make) -> None:
    speeds = [1.0] * 30 + [0.5] * 30
    run = make.run(make.training(LOADING, speeds=speeds, loaders=(make.loader(num_workers=0),)))
    assert verdict(summarise(run)).outcome is Outcome.CAUSES
    assert last_line(run).startswith("next: stoker why 0a1b2c --over-time   what changed")


def test_a_long_healthy_run_is_followed(make: Make) -> None:
    run = make.run(make.training(BUSY, seconds=1200, ticks_per_s=2.0))
    assert verdict(summarise(run)).outcome is Outcome.HEALTHY
    assert last_line(run) == "next: stoker why 0a1b2c --over-time   whether it stayed so"
