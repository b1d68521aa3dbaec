"""A session over trials that never ran: the order, the end, what a kill leaves, what a page may say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.errors import FolderError, RunNotFound
from stoker.trials.ab import journal, sessions
from stoker.trials.ab.answer import Turn, answer, next_turn
from stoker.trials.ab.measure import Arm, ArmFailure, ArmMeasure
from stoker.trials.ab.plan import SCREENING, ArmPlan, Plan, windows_of
from stoker.trials.ab.session import Ended, Interrupted, Progress, Session
from stoker.trials.ab.statistics import Outcome

PLAN = Plan(ArmPlan("a", ("python", "train.py")), ArmPlan("b", ("python", "train.py", "-x")), "/home/me")
RunArm = Callable[[Turn], ArmMeasure]


def good(turn: Turn, rate: float, **more: object) -> ArmMeasure:
    known = ArmMeasure(turn.arm, turn.pair, turn.order, turn.attempt, turn.seed)
    return replace(known, took_s=30.0, rates={"samples": rate}, steady=True, **more)


def wobbling(b_over_a: float, wobble: float = 0.002) -> RunArm:
    def run(turn: Turn) -> ArmMeasure:
        speed = 100.0 * (b_over_a if turn.arm is Arm.B else 1.0)
        return good(turn, speed * (1 + wobble * (-1) ** (turn.pair // 2) * (1 if turn.arm is Arm.B else 0.3)))

    return run


def ran(folder: Path, run_arm: RunArm, plan: Plan = PLAN, **more: object) -> Ended:
    return Session(plan, folder, **more).run(run_arm)  # type: ignore[arg-type]


def turns(ended: Ended) -> list[str]:
    return [f"{one.pair}{one.arm}" for one in ended.measures]


@pytest.mark.parametrize(
    ("ratio", "outcome"), [(1.5, Outcome.WIN), (0.7, Outcome.LOSS), (1.001, Outcome.SAME)]
)
def test_pairs_are_interleaved_and_end_with_an_answer(tmp_path: Path, ratio: float, outcome: Outcome) -> None:
    ended = ran(tmp_path, wobbling(ratio))
    assert ended.answer.outcome is outcome
    assert turns(ended)[:6] == ["1A", "1B", "2B", "2A", "3A", "3B"]
    assert journal.read(tmp_path).ended


def test_noise_ends_ambiguous_after_all_pairs(tmp_path: Path) -> None:
    ended = ran(tmp_path, wobbling(1.01, 0.1))
    assert ended.answer.outcome is Outcome.AMBIGUOUS
    assert len(ended.answer.pairs) == 8


def test_a_drawn_order_is_the_same_again(tmp_path: Path) -> None:
    plan = replace(PLAN, order_seed=7)
    orders = [plan.order(pair) for pair in range(1, 9)]
    assert orders == [replace(PLAN, order_seed=7).order(pair) for pair in range(1, 9)]
    assert len(set(orders)) == 2


def killed_after(count: int, run_arm: RunArm, error: type[BaseException]) -> RunArm:
    left = iter(range(count))

    def run(turn: Turn) -> ArmMeasure:
        if next(left, None) is None:
            raise error
        return run_arm(turn)

    return run


class Killed(BaseException):
    pass


@pytest.mark.parametrize("count", range(6))
def test_a_killed_session_goes_on_at_the_missing_arm(tmp_path: Path, count: int) -> None:
    with pytest.raises(Killed):
        ran(tmp_path, killed_after(count, wobbling(1.5), Killed))
    found = journal.read(tmp_path)
    assert (found.plan, len(found.measures), found.ended) == (PLAN, count, False)
    ended = ran(tmp_path, wobbling(1.5), measures=found.measures)
    assert turns(ended) == ["1A", "1B", "2B", "2A", "3A", "3B"]
    assert journal.read(tmp_path).measures == ended.measures


@pytest.mark.parametrize(("count", "is_offered"), [(0, False), (1, True)])
def test_only_one_that_measured_something_is_offered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, is_offered: bool
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    ran(sessions.create(PLAN.a.command), killed_after(count, wobbling(1.5), Interrupted))
    assert (sessions.unfinished_of(PLAN) is not None) is is_offered


def test_a_torn_line_is_passed_over_and_not_written_into(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        ran(tmp_path, killed_after(2, wobbling(1.5), Killed))
    path = tmp_path / journal.NAME
    path.write_bytes(path.read_bytes()[:-20])  # killed while it wrote the second trial
    found = journal.read(tmp_path)
    assert [one.arm for one in found.measures] == [Arm.A]
    ended = ran(tmp_path, wobbling(1.5), measures=found.measures)
    assert turns(ended) == ["1A", "1B", "2B", "2A", "3A", "3B"]
    again = journal.read(tmp_path)
    assert (again.measures, again.unreadable) == (ended.measures, 1)


@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt])
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, error: type[BaseException]) -> None:
    ended = ran(tmp_path, killed_after(4, wobbling(1.5), error))
    assert ended.interrupted
    assert len(ended.answer.pairs) == 2
    assert not ended.answer.final
    assert not journal.read(tmp_path).ended


def test_an_unsteady_arm_is_run_again_once(tmp_path: Path) -> None:
    calm = wobbling(1.5)

    def run(turn: Turn) -> ArmMeasure:
        first = (turn.pair, turn.arm, turn.attempt) == (2, Arm.A, 1)
        return replace(calm(turn), steady=not first, remark="drift")

    ended = ran(tmp_path, run)
    assert turns(ended) == ["1A", "1B", "2B", "2A", "2A", "3A", "3B"]
    assert ended.answer.outcome is Outcome.WIN


def test_an_arm_that_is_never_steady_is_unsteady_after_two_pairs(tmp_path: Path) -> None:
    calm = wobbling(1.5)
    ended = ran(tmp_path, lambda turn: replace(calm(turn), steady=turn.arm is Arm.A, remark="drift of 9 %"))
    assert ended.answer.outcome is Outcome.UNSTEADY
    assert ended.answer.reason == "B: drift of 9 %"
    assert turns(ended) == ["1A", "1B", "1B", "2B", "2B"]


def test_repeats_are_bounded(tmp_path: Path) -> None:
    calm = wobbling(1.02, 0.2)
    ended = ran(tmp_path, lambda turn: replace(calm(turn), steady=turn.pair == 1, remark="drift"))
    assert sum(one.attempt > 1 for one in ended.measures) == 4
    assert ended.answer.outcome is Outcome.UNSTEADY


def failing(arms: str, text: str = "KeyError: 'x'") -> RunArm:
    calm = wobbling(1.5)

    def run(turn: Turn) -> ArmMeasure:
        failure = ArmFailure("exception", text, tail=("Traceback", text)) if turn.arm in arms else None
        return replace(calm(turn), failure=failure, rates=None if failure else {"samples": 10.0})

    return run


def test_an_arm_that_always_fails_is_invalid_and_named(tmp_path: Path) -> None:
    ended = ran(tmp_path, failing("B", "OutOfMemoryError"))
    assert ended.answer.outcome is Outcome.INVALID
    assert ended.answer.reason == "B fails (2 of 2 trials), exception: OutOfMemoryError"


def test_a_script_that_always_fails_ends_soon(tmp_path: Path) -> None:
    ended = ran(tmp_path, failing("AB"))
    assert ended.answer.outcome is Outcome.INVALID
    assert len(ended.measures) == 2
    assert journal.read(tmp_path).measures[-1].failure == ended.measures[-1].failure


def test_one_failure_does_not_decide(tmp_path: Path) -> None:
    calm, failed = wobbling(1.5), failing("AB")
    ended = ran(tmp_path, lambda turn: (failed if (turn.pair, turn.attempt) == (1, 1) else calm)(turn))
    assert ended.answer.outcome is Outcome.WIN


def test_a_dead_setting_is_invalid_at_once(tmp_path: Path) -> None:
    calm = wobbling(1.0)
    dead = ("num_workers=8 has no effect in this script",)
    ended = ran(tmp_path, lambda turn: replace(calm(turn), dead=dead if turn.arm is Arm.B else ()))
    assert ended.answer.outcome is Outcome.INVALID
    assert "num_workers=8 has no effect" in ended.answer.reason
    assert len(ended.measures) == 2


def test_a_command_that_is_too_short_is_not_run_again(tmp_path: Path) -> None:
    ended = ran(
        tmp_path,
        lambda turn: ArmMeasure(turn.arm, turn.pair, turn.order, ticks=9, too_short=True, remark="3 s"),
    )
    assert (ended.answer.outcome, len(ended.measures)) == (Outcome.UNSTEADY, 1)
    assert "--quick" in ended.answer.help


def test_somebody_else_on_the_gpu_is_invalid(tmp_path: Path) -> None:
    calm = wobbling(1.5)
    ended = ran(tmp_path, lambda turn: replace(calm(turn), invalid="another process computed on this GPU"))
    assert ended.answer.outcome is Outcome.INVALID
    assert ended.answer.reason == "another process computed on this GPU"


def clock_of(step_s: float) -> Callable[[], float]:
    times: Iterator[float] = (step_s * n for n in range(1000))
    return lambda: next(times)


def test_time_given_is_kept_and_no_pair_is_begun_that_cannot_end(tmp_path: Path) -> None:
    ended = ran(tmp_path, wobbling(1.01, 0.1), limit_s=200.0, clock=clock_of(30.0))
    assert "200 s" in ended.stopped
    assert not ended.interrupted
    assert len(ended.measures) % 2 == 0
    assert 2 <= len(ended.measures) <= 6


def test_a_time_too_short_for_the_first_pair_is_said_to_be_that(tmp_path: Path) -> None:
    ended = ran(tmp_path, wobbling(1.5), limit_s=60.0, clock=clock_of(0.1))
    assert ended.measures == ()
    assert ended.stopped == "a pair takes 108 s at least, and 60 s were given"


def test_progress_says_pair_arm_and_time_left(tmp_path: Path) -> None:
    seen: list[Progress] = []
    ran(tmp_path, wobbling(1.5), on_progress=seen.append, clock=clock_of(30.0))
    assert [(one.turn.pair, one.turn.arm.value) for one in seen[:3]] == [(1, "A"), (1, "B"), (2, "B")]
    assert seen[0].left_s is None  # how long it takes to start is not known
    assert seen[2].left_s == 14 * 30.0
    assert [len(one.answer.pairs) for one in seen] == [0, 0, 1, 1, 2, 2]


def ended_early(ticks: int, min_s: float) -> str:
    plan = replace(PLAN, windows=windows_of(min_s))
    return answer(plan, (ArmMeasure(Arm.A, 1, 0, ticks=ticks, too_short=True, remark="it ended"),)).help


def test_what_to_do_about_a_command_that_ends_early_can_be_done() -> None:
    assert "a command that trains" in ended_early(ticks=0, min_s=45.0)
    assert ended_early(ticks=30, min_s=45.0).endswith("--quick")
    assert ended_early(ticks=30, min_s=20.0).endswith("--window 5s")
    assert ended_early(ticks=30, min_s=5.0) == "let it train longer (more steps or epochs)"


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(PLAN, tmp_path)
    real = journal.Journal.add

    def full(self: journal.Journal, one: ArmMeasure) -> None:
        if one.pair == 2:
            raise journal._cannot(self.path, OSError(28, "No space left on device"))
        real(self, one)

    monkeypatch.setattr(journal.Journal, "add", full)
    with pytest.raises(FolderError, match="No space left"):
        session.run(wobbling(1.5))
    assert len(session.stopped("disk").answer.pairs) == 1
    assert len(journal.read(tmp_path).measures) == 2


def test_two_cannot_run_the_same_comparison(tmp_path: Path) -> None:
    held = journal.Journal(tmp_path)
    with pytest.raises(FolderError, match="running already"):
        journal.Journal(tmp_path)
    held.close()


def test_a_folder_without_a_plan_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        journal.read(tmp_path)
    (tmp_path / journal.NAME).write_text('{"k":"plan","schema":"other/9"}\n[1]\n{"k":"arm"}\n')
    with pytest.raises(RunNotFound, match="no comparison"):
        journal.read(tmp_path)


def test_a_row_survives_the_journal(tmp_path: Path) -> None:
    whole = good(Turn(Arm.B, 2, 0, 1, 5), 3.5, metric=((1.0, 2.0),), metric_name="loss", notes=("a",))
    held = journal.Journal(tmp_path)
    plan = replace(PLAN, windows=SCREENING, seeds=(1, 2, 3), preflight=(("python", "check.py"),))
    held.begin(plan)
    held.add(whole)
    held.close()
    found = journal.read(tmp_path)
    assert found.measures == (whole,)
    assert found.plan == plan
    assert all(json.loads(line) for line in (tmp_path / journal.NAME).read_text().splitlines())


def test_changed_updates_per_env_step_are_said() -> None:
    def rl(turn: Turn, updates: float) -> ArmMeasure:
        return replace(good(turn, 5.0), rates={"env_steps": 5.0, "ticks": 1.0}, updates_per_env_step=updates)

    seen = [rl(Turn(Arm.A, 1, 0, 1, None), 1.0), rl(Turn(Arm.B, 1, 1, 1, None), 0.1)]
    found = answer(PLAN, seen)
    assert found.unit == "env_steps"
    assert "0.1" in found.differs[0]
    assert not answer(PLAN, [seen[0], rl(Turn(Arm.B, 1, 1, 1, None), 1.001)]).differs


def test_as_many_updates_in_other_portions_are_said() -> None:
    a, b = (replace(good(Turn(arm, 1, 0, 1, None), 5.0), updates_per_env_step=1.0) for arm in Arm)
    found = answer(PLAN, [replace(a, updates_in_a_row=1.0), replace(b, updates_in_a_row=10.0)])
    assert found.differs == (
        "A makes 1 update in a row, B 10, both as many for an env step: the same work in other portions",
    )


def test_another_batch_is_said() -> None:
    a, b = (good(Turn(arm, 1, order, 1, None), 5.0) for order, arm in enumerate(Arm))
    found = answer(PLAN, [replace(a, samples_per_tick=32.0), replace(b, samples_per_tick=128.0)])
    assert "0.25 times the updates" in found.differs[0]


def test_more_rows_for_an_update_are_more_work() -> None:
    """No loader tells samples: 0.92 times the updates of eight times the rows is no loss."""
    measures = []
    for pair in range(1, 4):
        for order, (arm, rows, ticks) in enumerate(((Arm.A, 32.0, 100.0), (Arm.B, 256.0, 92.0 + pair / 10))):
            one = good(Turn(arm, pair, order, 1, None), 0.0, rows_per_tick=rows)
            measures.append(replace(one, rates={"ticks": ticks, "rows": rows * ticks}))
    found = answer(replace(PLAN, pairs=3), measures)
    assert (found.outcome, found.unit) == (Outcome.WIN, "rows")
    assert "B's 256" in found.differs[0]
    alike = [replace(one, rows_per_tick=32.0) for one in measures]
    assert answer(replace(PLAN, pairs=3), alike).unit == "ticks"


def test_a_trial_that_the_time_cuts_off_is_no_verdict(tmp_path: Path) -> None:
    now = iter(range(0, 10_000, 30))
    short = ran(
        tmp_path,
        lambda turn: replace(good(turn, 1.0), steady=turn.pair == 1, remark="cut"),
        limit_s=75.0,
        clock=lambda: float(next(now)),
    )
    assert "given" in short.stopped
    assert all(one.usable for one in short.measures)


def test_the_next_turn_takes_the_pairs_seed() -> None:
    plan = replace(PLAN, seeds=(3, 4, 5))
    assert [plan.seed(pair) for pair in range(1, 5)] == [3, 4, 5, 3]
    turn = next_turn(plan, [])
    assert turn is not None
    assert turn.seed == 3
