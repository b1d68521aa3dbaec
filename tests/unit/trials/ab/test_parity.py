"""The loss at equal samples: read from a log, compared over seeds, or said not to be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.errors import UsageError
from stoker.trials.ab import seeds
from stoker.trials.ab.answer import answer
from stoker.trials.ab.measure import Arm, ArmMeasure
from stoker.trials.ab.metric import Far, checked_pattern, read_metric
from stoker.trials.ab.parity import Parity, ParityState, is_higher_better, parity_of, value_at
from stoker.trials.ab.plan import ArmPlan, Plan
from stoker.trials.ab.statistics import Outcome

SIDE = ArmPlan("a", ("python", "train.py", "--seed", "0"))
PLAN = Plan(SIDE, SIDE, "/", kind="numeric", seeds=(0, 1, 2))
FAR = Far(ticks=1000, samples=32_000, env_steps=0)


def curve(last: float, to: float = 1000.0) -> tuple[tuple[float, float], ...]:
    """Falls to `last`, and stays there for its last third."""
    return tuple((to * n / 30, last + max(0.0, 1 - n / 20)) for n in range(1, 31))


def trials(a: list[float], b: list[float], name: str = "loss") -> list[ArmMeasure]:
    found = []
    for pair, (one, other) in enumerate(zip(a, b, strict=True), 1):
        for order, (arm, last) in enumerate(((Arm.A, one), (Arm.B, other))):
            known = ArmMeasure(arm, pair, order, seed=(pair - 1) % 3, rates={"samples": 10.0 + order})
            metric = {"metric": curve(last), "metric_name": name, "metric_by": "samples"}
            found.append(replace(known, steady=True, **metric))
    return found


def judged(a: list[float], b: list[float], **more: object) -> Parity:
    return parity_of(replace(PLAN, **more), trials(a, b))  # type: ignore[arg-type]


def test_the_same_loss_is_as_good() -> None:
    found = judged([1.0, 1.1, 0.9], [1.02, 1.11, 0.93])
    assert found.state is ParityState.AS_GOOD
    assert found.at == 1000
    assert found.margin == pytest.approx(0.4)


def test_figures_that_look_alike_may_be_a_digit_apart() -> None:
    a, b = [0.0188, 0.0186, 0.0192], [0.0188, 0.0186, 0.0192]
    coarse = [replace(one, metric_unit=0.001) for one in trials(a, b)]
    found = parity_of(PLAN, coarse)
    assert (found.state, found.high) == (ParityState.AS_GOOD, pytest.approx(0.001))
    coarser = [replace(one, metric_unit=0.01) for one in coarse]
    assert parity_of(PLAN, coarser).state is ParityState.CANNOT_TELL


def test_an_arm_that_prints_too_seldom_is_why() -> None:
    few = "loss is printed 3 times in a trial, 5 are needed"
    seldom = [
        replace(one, metric=(), metric_missing=few) if one.arm is Arm.A else one
        for one in trials([1.0, 1.1, 0.9], [1.0, 1.1, 0.9])
    ]
    assert parity_of(PLAN, seldom).text.endswith(f"0 of 3 seeds: {few}")


def test_a_better_loss_is_as_good() -> None:
    assert judged([1.0, 1.1, 0.9], [0.2, 0.3, 0.1]).state is ParityState.AS_GOOD


def test_a_worse_loss_is_worse_and_makes_a_win_invalid() -> None:
    assert judged([1.0, 1.1, 0.9], [2.0, 2.1, 1.95]).state is ParityState.WORSE
    found = answer(PLAN, trials([1.0, 1.1, 0.9], [2.0, 2.1, 1.95]))
    assert found.outcome is Outcome.INVALID
    assert "trains worse" in found.reason


def test_a_faster_arm_may_make_up_for_it_in_equal_time() -> None:
    """B learns a quarter as much from a sample, and takes four times as many a second."""

    def slower(one: ArmMeasure) -> ArmMeasure:
        quarter = tuple((4 * samples, loss) for samples, loss in one.metric)
        return replace(one, metric=quarter, rates={"samples": 40.0}) if one.arm is Arm.B else one

    measures = [
        slower(replace(one, rates={"samples": 10.0})) for one in trials([1.0, 1.1, 0.9], [1.0, 1.1, 0.9])
    ]
    found = parity_of(PLAN, measures)
    assert found.state is ParityState.WORSE
    assert found.in_time == "loss after 100 s at these speeds: 1 in A, 1 in B"
    assert judged([1.0, 1.1, 0.9], [1.0, 1.1, 0.9]).in_time == ""


def test_more_return_is_better() -> None:
    up, down = [100.0, 110.0, 90.0], [40.0, 52.0, 31.0]
    assert parity_of(PLAN, trials(up, down, "return")).state is ParityState.WORSE
    assert parity_of(PLAN, trials(down, up, "return")).state is ParityState.AS_GOOD
    assert judged(up, down, higher_is_better=False).state is ParityState.AS_GOOD
    assert is_higher_better("mean_return")
    assert not is_higher_better("loss")


def test_seeds_that_differ_too_much_cannot_tell_and_the_win_stands() -> None:
    wild = trials([1.0, 1.1, 0.9], [1.0, 2.1, 0.3])
    assert parity_of(PLAN, wild).state is ParityState.CANNOT_TELL
    assert answer(PLAN, wild).outcome is Outcome.WIN


def test_an_arm_that_diverges_is_worse() -> None:
    assert judged([1.0, 1.1, 0.9], [1.0, float("nan"), 0.9]).state is ParityState.WORSE


@pytest.mark.parametrize("change", [{"metric": ()}, {"seed": None}])
def test_without_figures_it_cannot_be_told(change: dict[str, object]) -> None:
    blank = [replace(one, **change) for one in trials([1, 1, 1], [1, 1, 1])]  # type: ignore[arg-type]
    assert parity_of(PLAN, blank).state is ParityState.CANNOT_TELL


def test_without_a_seed_it_cannot_be_told_and_says_why() -> None:
    found = judged([1, 1, 1], [1, 1, 1], seeds=(), no_seeds=seeds.NO_PLACE)
    assert found.state is ParityState.CANNOT_TELL
    assert "--seed-flag" in found.text


def test_two_seeds_are_too_few() -> None:
    assert "2 of 3 seeds" in parity_of(PLAN, trials([1.0, 1.1], [1.0, 1.1])).text


def test_exact_settings_need_no_parity() -> None:
    assert answer(replace(PLAN, kind="exact"), trials([1, 1, 1], [9, 9, 9])).parity is None


def test_the_value_is_taken_at_equal_samples() -> None:
    slow, fast = curve(1.0, 1000), curve(1.0, 2000)
    assert value_at(fast, 1000) > value_at(slow, 1000) + 0.1
    assert value_at(((10, 3.0), (100, 1.0)), 55) == pytest.approx(2.0)


def lines(form: str, steps: range) -> list[str]:
    return [form.format(step=step, loss=1 / step) for step in steps]


@pytest.mark.parametrize(
    ("form", "last", "by"),
    [
        ("epoch 0  step {step}  loss {loss:.3f}  accuracy 0.5", 32_000, "samples"),
        ("Samples: {step} train_loss={loss:.3f}", 1000, "samples"),
        ('{{"iter": {step}, "loss": {loss:.3f}}}', 32_000, "samples"),
    ],
)
def test_usual_lines_are_read(form: str, last: float, by: str) -> None:
    found = read_metric(lines(form, range(100, 1001, 100)), FAR)
    assert (found.name, found.by, len(found.points)) == ("loss", by, 10)
    assert found.points[-1][0] == pytest.approx(last)
    assert found.points[0][1] == pytest.approx(0.01, abs=1e-3)


def test_a_return_counts_more_than_a_loss_where_there_is_an_environment() -> None:
    text = [f"step {n}  return {n:.0f}  critic loss 3.0" for n in range(500, 5001, 500)]
    found = read_metric(text, Far(4500, 576_000, 5000))
    assert (found.name, found.by, found.points[-1]) == ("return", "env steps", (5000.0, 5000.0))


def test_iterations_become_env_steps() -> None:
    text = [f"iteration {n}  9000 samples/s  return {n}.5  loss 0.1" for n in range(1, 11)]
    found = read_metric(text, Far(160, 5_120, 20_480))
    assert found.points[-1] == pytest.approx((20_480, 10.5))


@pytest.mark.parametrize(
    ("printed", "unit"), [("0.019", 1e-3), ("-1196", 1.0), ("1.25e-02", 1e-4), ("nan", 0.0), (".5", 0.1)]
)
def test_the_last_digit_is_known(printed: str, unit: float) -> None:
    text = [f"step {step} loss {printed}" for step in range(100, 1001, 100)]
    assert read_metric(text, FAR).unit == pytest.approx(unit)


def test_a_pattern_of_the_users() -> None:
    text = [f"[{n}] objective => {n / 2} at {64 * n}" for n in range(1, 8)]
    found = read_metric(text, FAR, r"objective => ([0-9.]+) at (?P<samples>\d+)")
    assert (found.name, found.points[-1]) == ("objective", (448.0, 3.5))
    assert "matches" in read_metric(text, FAR, r"perplexity: ([0-9.]+)").missing
    after = [f"it {n} of 9, objective: {n / 2}" for n in range(1, 8)]
    found = read_metric(after, FAR, r"it (?P<step>\d+) .* objective: ([0-9.]+)")
    assert (found.name, found.points[-1][1]) == ("objective", 3.5)


def test_lines_that_do_not_say_how_far_are_not_used() -> None:
    assert "how far" in read_metric(["loss 0.5"] * 20, FAR).missing
    assert "2 times" in read_metric(["step 10 loss 0.5", "step 20 loss 0.4"], FAR).missing
    assert "no loss" in read_metric(["hello"], FAR).missing


@pytest.mark.parametrize("pattern", ["loss: (", "loss: [0-9.]+"])
def test_a_bad_pattern_is_told(pattern: str) -> None:
    with pytest.raises(UsageError):
        checked_pattern(pattern)


@pytest.mark.parametrize(
    ("command", "flag", "seeded", "given"),
    [
        (["train", "--seed", "7"], "", ("train", "--seed", "9"), 7),
        (["train", "--seed=7", "-x"], "", ("train", "--seed=9", "-x"), 7),
        (["train", "trainer.seed=7"], "", ("train", "trainer.seed=9"), 7),
        (["train", "--s", "{seed}"], "", ("train", "--s", "9"), 0),
        (["train", "--rs", "7"], "--rs", ("train", "--rs", "9"), 7),
        (["train"], "--rs", ("train", "--rs", "9"), 0),
    ],
)
def test_where_the_seed_goes(command: list[str], flag: str, seeded: tuple[str, ...], given: int) -> None:
    assert seeds.takes_seed(command, flag)
    assert seeds.with_seed(command, 9, flag) == seeded
    assert seeds.given_seed(command, flag) == given


def test_a_command_without_a_seed() -> None:
    assert not seeds.takes_seed(["python", "train.py", "--seeds-per-run", "3"])
    assert seeds.with_seed(["python", "train.py"], 3) == ("python", "train.py")
