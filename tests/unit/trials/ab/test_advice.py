"""What is advised after AMBIGUOUS: by where the spread comes from, and by numbers that hold."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from stoker.trials.ab.advice import Spread, advise, settling_pairs, settling_window_s, spread_of
from stoker.trials.ab.answer import answer
from stoker.trials.ab.measure import Arm, ArmMeasure
from stoker.trials.ab.plan import CONFIRMING, ArmPlan, Plan, windows_of
from stoker.trials.ab.statistics import Outcome, Rule, look

PLAN = Plan(ArmPlan("a", ("python",)), ArmPlan("b", ("python", "-x")), "/", CONFIRMING)
NOISE = (0.05, -0.05, 0.04, -0.04, 0.03, -0.03, 0.02, -0.02)


def measures(half_width_frac: float | None, noise: tuple[float, ...] = NOISE) -> tuple[ArmMeasure, ...]:
    found = []
    for pair, one in enumerate(noise, start=1):
        blank = ArmMeasure(Arm.A, pair, 0, steady=True, window_s=45.0, half_width_frac=half_width_frac)
        found.append(replace(blank, rates={"samples": 100.0}))
        found.append(replace(blank, arm=Arm.B, order=1, rates={"samples": 102.5 * math.exp(one)}))
    return tuple(found)


def test_noise_within_windows_asks_for_longer_ones() -> None:
    found = answer(PLAN, measures(0.05))
    assert found.outcome is Outcome.AMBIGUOUS
    assert "wavers within a trial" in found.help
    assert found.again.startswith("--window ")
    assert "--pairs" not in found.again


def test_noise_between_trials_asks_for_more_pairs() -> None:
    found = answer(PLAN, measures(0.005, tuple(0.75 * one for one in NOISE)))
    assert found.outcome is Outcome.AMBIGUOUS
    assert "trials of one arm differ from each other" in found.help
    assert found.again.startswith("--pairs ")
    assert 8 < int(found.again.split()[1]) <= 16


def test_what_cannot_be_settled_is_said() -> None:
    found = answer(PLAN, measures(0.005))
    assert "more than 16 pairs would be needed" in found.help
    assert found.again == ""


def test_windows_too_short_to_judge_ask_for_the_usual_ones() -> None:
    found = answer(replace(PLAN, windows=windows_of(2.0)), measures(None))
    assert found.again == "--window 45s"


def test_no_more_pairs_than_there_may_be() -> None:
    found = advise(replace(PLAN, pairs=16), Spread(0.02, 0.03, 0.001, 45.0))
    assert "more than 16 pairs" in found.text


def test_both_where_longer_windows_alone_are_not_enough() -> None:
    found = advise(PLAN, Spread(0.03, 0.042, 0.034, 45.0))
    assert found.flags.startswith("--window 180s --pairs ")


def test_the_parts_of_a_spread() -> None:
    pairs = [(one, replace(one, arm=Arm.B)) for one in measures(0.0196)[::2]]
    found = spread_of(NOISE, pairs)
    assert found.within == pytest.approx(math.sqrt(2) * 0.01)
    assert found.at(found.window_s) == pytest.approx(found.whole)
    assert found.at(1e12) == pytest.approx(found.between)


def settled(mean: float, spread: float, pairs: int) -> float:
    """Share of sessions of all so many pairs that end with a verdict."""
    source, rule, ends = random.Random(1), Rule(pairs=pairs), 0
    for _ in range(400):
        ends += look([source.gauss(mean, spread) for _ in range(pairs)], rule) is not Outcome.AMBIGUOUS
    return ends / 400


@pytest.mark.parametrize(("mean", "spread"), [(0.025, 0.026), (0.002, 0.027), (-0.03, 0.03)])
def test_the_number_of_pairs_holds_four_times_in_five(mean: float, spread: float) -> None:
    pairs = settling_pairs(mean, spread, 8)
    assert pairs is not None
    assert settled(mean, spread, pairs) >= 0.75
    assert settled(mean, spread, 8) < 0.75


def test_the_length_of_windows_holds_four_times_in_five() -> None:
    spread = Spread(0.025, 0.04, 0.038, 45.0)
    seconds = settling_window_s(spread, 8)
    assert seconds is not None
    assert seconds > 60
    assert settled(0.025, spread.at(seconds), 8) >= 0.75
    assert settled(0.025, spread.at(45.0), 8) < 0.6
