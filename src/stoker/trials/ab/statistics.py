"""When a row of paired comparisons says enough: win, loss, same, or go on.

Each pair gives one log ratio, B over A. After each pair from the third on there is a look: a paired t-test
whose p grows with the look, and a test that the ratio lies within 2 % of one. Constants from
benchmarks/ab/simulate.py: a constant p < 0.016 finds a true 3 % in 81 % of sessions where a run's own noise
counts; a p that grows with the share of pairs done finds 90 to 92 % at the same 5 % of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

from stoker.trials.ab.student import two_sided_p, two_sided_t

FIRST_LOOK = 3
PAIRS = 8
SAME_FRAC = 0.02
P_GROWTH, SAME_GROWTH = 10.0, 2.0
SAME_LAST_P = 0.05
"""One-sided: at the last look the 90 % interval must lie inside, at earlier ones a wider one."""
LEAST_P = 0.002
"""At the first looks, so that a change that doubles the speed needs no fourth pair."""
_LAST_P = (
    *(0.0495, 0.0485, 0.0462, 0.0452, 0.044, 0.0428, 0.0419),
    *(0.0415, 0.0406, 0.04, 0.0394, 0.039, 0.0384, 0.0378),
)
"""The p of the last look, for 3 to 16 pairs: 5 % of false alarms over all looks together, where nothing but
noise is there and nothing ends early as the same."""
PAIRS_MAX = FIRST_LOOK + len(_LAST_P) - 1
SPREAD_MIN = 1e-9


class Outcome(StrEnum):
    WIN = "WIN"
    LOSS = "LOSS"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    UNSTEADY = "UNSTEADY"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Rule:
    """How many pairs at most, and what a look asks for."""

    pairs: int = PAIRS
    same_frac: float = SAME_FRAC

    def __post_init__(self) -> None:
        if not FIRST_LOOK <= self.pairs <= PAIRS_MAX:
            raise ValueError(f"{FIRST_LOOK} to {PAIRS_MAX} pairs, not {self.pairs}")

    def p_at(self, pairs_done: int) -> float:
        """A difference counts at this look below this p."""
        grown = _LAST_P[self.pairs - FIRST_LOOK] * math.pow(self._share(pairs_done), P_GROWTH)
        return max(LEAST_P, grown)

    def same_p_at(self, pairs_done: int) -> float:
        """One-sided, at each end of the band."""
        return SAME_LAST_P * math.pow(self._share(pairs_done), SAME_GROWTH)

    def _share(self, pairs_done: int) -> float:
        return min(1.0, pairs_done / self.pairs)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The ratio B over A after some pairs."""

    pairs: int
    ratio: float
    low: float
    """A 95 % interval that may be looked at after every pair: it leaves out 1 just where the look says so."""
    high: float
    same_low: float
    """Inside the band, they are the same."""
    same_high: float
    p: float
    p_needed: float


def estimate(log_ratios: Sequence[float], rule: Rule) -> Estimate | None:
    """None for fewer than two pairs: one pair has no spread."""
    count = len(log_ratios)
    if count < 2:
        return None
    mean = fmean(log_ratios)
    error = max(stdev(log_ratios), SPREAD_MIN) / math.sqrt(count)
    done = max(count, FIRST_LOOK)
    wide = two_sided_t(rule.p_at(done), count - 1) * error
    band = two_sided_t(2 * rule.same_p_at(done), count - 1) * error
    return Estimate(
        pairs=count,
        ratio=math.exp(mean),
        low=_exp(mean - wide),
        high=_exp(mean + wide),
        same_low=_exp(mean - band),
        same_high=_exp(mean + band),
        p=two_sided_p(mean / error, count - 1),
        p_needed=rule.p_at(done),
    )


def _exp(value: float) -> float:
    """An interval from two pairs may be wider than a float."""
    return math.exp(max(-700.0, min(700.0, value)))


def look(log_ratios: Sequence[float], rule: Rule) -> Outcome | None:
    """What these pairs say; None: go on. A difference that is surely below 2 % is none worth a change."""
    if len(log_ratios) < FIRST_LOOK:
        return None
    found = estimate(log_ratios, rule)
    assert found is not None
    if 1 - rule.same_frac < found.same_low and found.same_high < 1 + rule.same_frac:
        return Outcome.SAME
    if found.p < found.p_needed:
        return Outcome.WIN if found.ratio > 1 else Outcome.LOSS
    return Outcome.AMBIGUOUS if len(log_ratios) >= rule.pairs else None


def first_answer(log_ratios: Sequence[float], rule: Rule) -> tuple[Outcome, int]:
    """What a session that looks after each of these pairs ends with, and after how many."""
    for count in range(FIRST_LOOK, len(log_ratios) + 1):
        found = look(log_ratios[:count], rule)
        if found is not None:
            return found, count
    return Outcome.AMBIGUOUS, len(log_ratios)
