"""What the page of a comparison says, for sessions that never ran."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from stoker.report import ab_json, ab_page, markdown, text
from stoker.report.ab_progress import status_line
from stoker.trials.ab.answer import Turn, answer
from stoker.trials.ab.measure import Arm, ArmFailure, ArmMeasure
from stoker.trials.ab.plan import SCREENING, ArmPlan, Plan
from stoker.trials.ab.session import Ended, Progress

FOLDER = Path("ab/20261116-120000-train-0a1b2c")
PLAN = Plan(
    ArmPlan("num_workers=2", ("python", "train.py"), "num_workers=2"),
    ArmPlan("num_workers=8", ("python", "train.py"), "num_workers=8"),
    "/home/me",
)


def trial(arm: Arm, pair: int, rate: float, **more: object) -> ArmMeasure:
    order = 0 if (arm is Arm.A) == (pair % 2 == 1) else 1
    known = ArmMeasure(arm, pair, order, folder=f"pair{pair}-{arm}-1", steady=True, rates={"samples": rate})
    return replace(known, **more)  # type: ignore[arg-type]


def session(ratio: float = 1.4, pairs: int = 3, **more: object) -> tuple[ArmMeasure, ...]:
    found = []
    for pair in range(1, pairs + 1):
        found.append(trial(Arm.A, pair, 1000.0 + pair, whole_s=14 * 3600.0, whole_from="--total", **more))
        found.append(trial(Arm.B, pair, ratio * (1000.0 - pair), whole_s=9 * 3600.0, busy_pct=80.0))
    return tuple(found)


def ended(measures: tuple[ArmMeasure, ...], plan: Plan = PLAN, **more: object) -> Ended:
    return Ended(plan, measures, answer(plan, measures), **more)  # type: ignore[arg-type]


def page(*args: object, **more: object) -> str:
    return text.plain(ab_page.build(ended(*args, **more), FOLDER))  # type: ignore[arg-type]


def test_a_win_with_its_interval_and_the_whole_training() -> None:
    shown = page(session())
    assert shown.splitlines()[0].endswith("WIN, 3 pairs")
    assert "WIN: B is faster, 1.39 times (95 % interval 1.3" in shown
    assert "samples/s" in shown
    assert "14 h" in shown
    assert "9 h" in shown
    assert "not ranked on" in shown
    assert f"next: stoker why {FOLDER}/pair3-B-1" in shown


def test_a_loss_and_the_same() -> None:
    assert "LOSS: B is slower" in page(session(0.6))
    assert "SAME: B does" in page(session(1.004))
    assert "within 2 %" in page(session(1.004))


def test_two_equal_arms_are_said_to_be_equal() -> None:
    assert "what differs changes neither" in page(session())
    shown = page(session(1.004), replace(PLAN, b=PLAN.a))
    assert "nothing differs" in shown
    assert "what differs" not in shown


def test_the_time_left_fits_into_a_status_line_of_80_columns() -> None:
    found = answer(replace(PLAN, pairs=16), session(pairs=4))
    turn = Turn(Arm.B, 16, 0, attempt=2, seed=None)
    progress = Progress(turn, 16, found, elapsed_s=1330.0, left_s=1270.0)
    assert status_line(progress).endswith("about 21 min 10 s left · 22 min 10 s done")
    assert status_line(progress, 79).startswith("pair 16 of 16, B, again · B/A 1.39")
    assert status_line(progress, 79).endswith("about 21 min 10 s left")
    assert status_line(progress, 20) == "pair 16 of 16, B, ag"


def test_an_unfinished_one_gives_no_verdict_and_says_how_to_go_on() -> None:
    shown = page(session(pairs=2), stopped="interrupted", interrupted=True)
    assert "No verdict yet (interrupted)" in shown
    assert "next: stoker ab --resume 0a1b2c" in shown
    assert "WIN" not in shown


def test_a_failing_arm_shows_its_class_and_the_end_of_its_log() -> None:
    failure = ArmFailure("out-of-memory", "CUDA out of memory", "less of it", ("line 1", "\x1b[31mOOM"))
    failed = tuple(
        replace(trial(Arm.B, 1, 1.0, failure=failure), attempt=attempt, rates=None) for attempt in (1, 2)
    )
    shown = page((trial(Arm.A, 1, 5.0), *failed))
    assert "INVALID: B fails (2 of 2 trials), out-of-memory: CUDA out of memory" in shown
    assert "out-of-memory" in shown
    assert "\\x1b[31mOOM" in shown
    assert "2 of 2" in shown
    assert "What to do\n  - less of it" in shown
    assert "  | line 1\n" in shown
    shown = markdown.render(ab_page.build(ended((trial(Arm.A, 1, 5.0), *failed)), FOLDER))
    assert "```\nline 1\n\\x1b[31mOOM\n```" in shown


def test_what_was_not_compared_is_not_explained() -> None:
    failure = ArmFailure("user_error", "KeyError: 'lr'", "", ("Traceback", "  File", "KeyError: 'lr'"))
    shown = page((trial(Arm.A, 1, 5.0, failure=failure),))
    assert "What is compared" not in shown
    assert "run its command by hand" in shown
    assert "  |   File\n" in shown
    assert "What is compared" not in page((), stopped="interrupted", interrupted=True)


def test_parity_that_cannot_be_told_is_in_the_sentence() -> None:
    plan = replace(PLAN, kind="numeric", no_seeds="the command shows no seed")
    shown = page(session(), plan)
    assert "Whether it trains as well cannot be told" in " ".join(shown.split())
    assert "the command shows no seed" in shown
    assert "no check of the loss" in " ".join(page(session()).split())


def test_short_windows_are_said() -> None:
    assert "windows of 20 s" in page(session(), replace(PLAN, windows=SCREENING))
    assert "windows of" not in page(session())


def test_a_plan_says_its_worst_case() -> None:
    shown = text.plain(ab_page.plan_page(PLAN))
    assert "nothing was run" in shown
    assert "2 h 43 min" in shown
    assert "AB, BA, AB" in shown


def test_json_has_the_pairs_and_the_trials() -> None:
    content = json.loads(ab_json.render(ended(session()), str(FOLDER)))
    assert (content["schema"], content["verdict"], content["unit"]) == ("stoker.ab/1", "WIN", "samples")
    assert [row["order"] for row in content["pairs"]] == ["AB", "BA", "AB"]
    assert len(content["trials"]) == 6
    assert json.loads(ab_json.render(ended((), stopped="x"), ""))["verdict"] is None


def test_markdown_escapes() -> None:
    plan = replace(PLAN, b=replace(PLAN.b, label="a|b <script>"))
    shown = markdown.render(ab_page.build(ended(session(), plan), FOLDER))
    assert "a\\|b \\<script\\>" in shown


def test_a_setting_of_which_no_sign_was_seen_is_told_where_the_speed_shows_none() -> None:
    doubt = "B, flag:--gamma=0.9: no effect was seen"
    doubted = tuple(replace(one, doubtful=(doubt,)) for one in session())
    assert doubt not in page(doubted)
    assert doubt in page(doubted[:4], stopped="interrupted")


def test_a_dead_setting_makes_it_invalid_and_is_named() -> None:
    dead = replace(trial(Arm.B, 1, 5.0), dead=("flag:--lr=1: this setting has no effect in this script",))
    shown = " ".join(page((trial(Arm.A, 1, 5.0), dead)).split())
    assert "INVALID: B: flag:--lr=1: this setting has no effect in this script" in shown
    assert "What to do - take a setting the script reads" in shown
