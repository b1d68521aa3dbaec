"""The looks, on rows of log ratios whose answer is known, and on rates that were recorded."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from stoker.trials.ab.statistics import (
    PAIRS_MAX,
    Outcome,
    Rule,
    estimate,
    first_answer,
    look,
)

RULE = Rule()
RATES = json.loads((Path(__file__).parent / "rates.json").read_text("utf-8"))


def ratios(percent: float, wobble: float, count: int) -> list[float]:
    """Around a ratio, up and down by turns."""
    return [math.log1p(percent / 100) + wobble / 100 * (-1) ** n for n in range(count)]


def test_p_grows_to_its_last_look_and_no_further() -> None:
    steps = [RULE.p_at(done) for done in range(3, 9)]
    assert steps == sorted(steps)
    assert steps[0] == 0.002
    assert 0.03 < steps[-1] < 0.05
    assert RULE.p_at(20) == steps[-1]
    assert 2 * RULE.same_p_at(8) == pytest.approx(0.10)  # the 90 % interval


def test_fewer_than_three_pairs_say_nothing() -> None:
    assert look(ratios(50, 0.1, 2), RULE) is None
    assert estimate([0.1], RULE) is None


@pytest.mark.parametrize(
    ("percent", "wobble", "expected", "pairs"),
    [
        (40, 0.5, Outcome.WIN, 3),
        (-40, 0.5, Outcome.LOSS, 3),
        (0.1, 0.02, Outcome.SAME, 3),
        (-0.8, 0.4, Outcome.SAME, 4),
        (4, 1.5, Outcome.WIN, 6),
        (1.0, 0.1, Outcome.SAME, 3),  # surely there, and surely too small to matter
        (2.5, 8, Outcome.AMBIGUOUS, 8),
    ],
)
def test_what_ends_a_session_and_when(percent: float, wobble: float, expected: Outcome, pairs: int) -> None:
    assert first_answer(ratios(percent, wobble, 8), RULE) == (expected, pairs)


def test_the_interval_leaves_out_one_just_where_the_look_says_so() -> None:
    rng = random.Random(3)
    for _ in range(300):
        pairs = [rng.gauss(0.03, 0.03) for _ in range(8)]
        found = estimate(pairs, RULE)
        assert found is not None
        assert (found.p < found.p_needed) == (not found.low <= 1 <= found.high)
        assert found.low < found.ratio < found.high


def test_b_over_a_turned_round_is_the_inverse() -> None:
    pairs = [0.02, 0.05, 0.01, 0.04, 0.03]
    found, turned = estimate(pairs, RULE), estimate([-one for one in pairs], RULE)
    assert found is not None
    assert turned is not None
    assert turned.ratio == pytest.approx(1 / found.ratio)
    assert (turned.low, turned.high) == pytest.approx((1 / found.high, 1 / found.low))


def test_pairs_that_do_not_differ_at_all_are_no_division_by_zero() -> None:
    assert look([0.0] * 3, RULE) is Outcome.SAME
    assert look([0.3] * 3, RULE) is Outcome.WIN
    assert estimate([0.0, 100.0], RULE) is not None  # an interval wider than a float


@pytest.mark.parametrize("pairs", [2, PAIRS_MAX + 1])
def test_a_number_of_pairs_nobody_calibrated_is_refused(pairs: int) -> None:
    with pytest.raises(ValueError, match="pairs"):
        Rule(pairs=pairs)


@pytest.mark.parametrize("pairs", [3, 5, 8, 12, 16])
def test_false_alarms_on_noise_alone(pairs: int) -> None:
    """A fixed draw: 1,500 sessions; three standard errors above 5 % at most."""
    rng, rule, wrong = random.Random(pairs), Rule(pairs=pairs), 0
    for _ in range(1500):
        outcome, _ = first_answer([rng.gauss(0, 0.2) for _ in range(pairs)], rule)
        wrong += outcome in (Outcome.WIN, Outcome.LOSS)
    assert 0.02 < wrong / 1500 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1500)


@pytest.mark.parametrize("case", RATES, ids=[case["name"] for case in RATES])
def test_recorded_rates(case: dict[str, object]) -> None:
    """Rates of real runs, in the order they ran; the answer stays what it was."""
    pairs = [math.log(b / a) for a, b in case["pairs"]]  # type: ignore[attr-defined]
    outcome, count = first_answer(pairs, RULE)
    assert (outcome.value, count) == (case["outcome"], case["pairs_needed"])
    found = estimate(pairs[:count], RULE)
    assert found is not None
    assert found.ratio == pytest.approx(case["ratio"], rel=1e-6)
