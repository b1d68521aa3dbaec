"""What would settle a comparison that ended AMBIGUOUS: longer windows, or more pairs?

The ratios of the pairs spread for two reasons. Within a trial the speed wavers, which longer windows average
out; and one trial is not like the next, which only more of them do. Each window knows its own interval, so
the two can be told apart. If ratio and spread stay as they were seen, the figures hold four times in five.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from stoker.trials.ab.measure import ArmMeasure
from stoker.trials.ab.plan import CONFIRMING, SCREENING, Plan
from stoker.trials.ab.statistics import PAIRS_MAX, SAME_FRAC, SPREAD_MIN, Rule
from stoker.trials.ab.student import two_sided_t

EXPLAINS_FRAC = 0.5
"""Of the variance of the ratios: from there on the windows are what is to be mended."""
LONGEST_S = 600.0
"""Nobody is told to take windows longer than this."""
_POWER_Z = 0.84
"""Four times in five."""
_95_Z = 1.96
_CALM = "a quieter machine is what would help"


@dataclass(frozen=True, slots=True)
class Advice:
    text: str
    flags: str
    """Of the next `stoker ab`; empty where none would help."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of the log ratios, as a standard deviation, and the part of it that the windows explain."""

    mean: float
    whole: float
    within: float | None
    """None: the windows are too short to know how sure their speed is."""
    window_s: float

    @property
    def between(self) -> float:
        return math.sqrt(max(0.0, self.whole**2 - (self.within or 0.0) ** 2))

    def at(self, window_s: float) -> float:
        """With windows of another length."""
        return math.hypot(self.between, (self.within or 0.0) * math.sqrt(self.window_s / window_s))


def spread_of(log_ratios: Sequence[float], arms: Sequence[tuple[ArmMeasure, ArmMeasure]]) -> Spread:
    widths = [(a.half_width_frac, b.half_width_frac) for a, b in arms]
    known = [math.hypot(a, b) / _95_Z for a, b in widths if a is not None and b is not None]
    within = math.sqrt(fmean(one**2 for one in known)) if len(known) == len(widths) else None
    window_s = median(one.window_s for pair in arms for one in pair)
    return Spread(fmean(log_ratios), max(stdev(log_ratios), SPREAD_MIN), within, window_s)


def advise(plan: Plan, spread: Spread) -> Advice:
    if spread.within is None and plan.windows.min_s < SCREENING.min_s:
        return Advice(
            f"windows of {plan.windows.min_s:.3g} s are too short to know how sure a speed is: "
            f"take {CONFIRMING.min_s:.0f} s, as without --window",
            f"--window {CONFIRMING.min_s:.0f}s",
        )
    if (spread.within or 0.0) ** 2 >= EXPLAINS_FRAC * spread.whole**2:
        return _longer(plan, spread)
    return _more(plan, spread)


def _longer(plan: Plan, spread: Spread) -> Advice:
    wavers = _pct(_95_Z * (spread.within or 0.0) / math.sqrt(2))  # of one arm; a ratio has two
    why = f"the speed wavers within a trial (a window says ±{wavers}), and that explains how the pairs differ"
    seconds = settling_window_s(spread, plan.pairs)
    if seconds is not None and seconds <= LONGEST_S:
        return Advice(f"{why}: windows of {seconds:.0f} s would likely settle it", f"--window {seconds:.0f}s")
    long_s = max(CONFIRMING.max_s, spread.window_s)
    pairs = settling_pairs(spread.mean, spread.at(long_s), plan.pairs)
    if pairs is not None:
        flags = f"--window {long_s:.0f}s --pairs {pairs}"
        return Advice(f"{why}: {pairs} pairs with windows of {long_s:.0f} s would likely settle it", flags)
    return Advice(f"{why}; no {PAIRS_MAX} pairs with windows of {long_s:.0f} s would settle it: {_CALM}", "")


def _more(plan: Plan, spread: Spread) -> Advice:
    why = f"trials of one arm differ from each other (the ratio by {_pct(spread.whole)}, one SD)"
    if spread.within is not None:
        why += ", more than the speed wavers within one"
    pairs = settling_pairs(spread.mean, spread.whole, plan.pairs)
    if pairs is not None:
        return Advice(f"{why}: {pairs} pairs would likely settle it", f"--pairs {pairs}")
    return Advice(f"{why}: more than {PAIRS_MAX} pairs would be needed. {_CALM.capitalize()}", "")


def settling_pairs(mean: float, spread: float, done: int) -> int | None:
    """How many pairs would likely end with a verdict; None: more than there may be."""
    return next((n for n in range(done + 1, PAIRS_MAX + 1) if spread <= _bearable(mean, n)), None)


def settling_window_s(spread: Spread, pairs: int) -> float | None:
    """How long windows would likely have to be, in steps that can be typed; None: no length is enough."""
    room = _bearable(spread.mean, pairs) ** 2 - spread.between**2
    if room <= 0 or not spread.within:
        return None
    step = 5.0
    return step * math.ceil(max(spread.window_s * spread.within**2 / room, 1.3 * spread.window_s) / step)


def _bearable(mean: float, pairs: int) -> float:
    """The largest spread with which the last of so many pairs is likely to bring WIN, LOSS or SAME."""
    rule, root = Rule(pairs=pairs), math.sqrt(pairs)
    differs = abs(mean) * root / (two_sided_t(rule.p_at(pairs), pairs - 1) + _POWER_Z)
    same = (SAME_FRAC - abs(mean)) * root / (two_sided_t(2 * rule.same_p_at(pairs), pairs - 1) + _POWER_Z)
    return max(differs, same)


def _pct(frac: float) -> str:
    return f"{100 * frac:.2g} %"
