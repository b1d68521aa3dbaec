"""Do both arms train as well? Loss (or return) at equal samples, over the same seeds in both arms.

B must not be worse than A by more than twice the spread that A's own seeds show. With three seeds the spread
is their range, the 95 % interval that of the paired difference. What cannot be told is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, stdev

from stoker.trials.ab.measure import Arm, ArmMeasure
from stoker.trials.ab.plan import Plan
from stoker.trials.ab.student import two_sided_t

SEEDS = 3
MARGIN = 2.0
"""Times the baseline's spread."""
LAST_SHARE = 0.2
"""Of the way to the common number of samples: the mean over it is the value there."""
_HIGHER = ("return", "reward", "accuracy", "acc", "score", "success", "map", "iou", "f1")


class ParityState(StrEnum):
    AS_GOOD = "as good"
    WORSE = "worse"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Parity:
    state: ParityState
    text: str
    metric: str = ""
    at: float | None = None
    """The common number of samples (or of what `by` says)."""
    by: str = ""
    a: tuple[float, ...] = ()
    """One value per seed."""
    b: tuple[float, ...] = ()
    worse_by: float | None = None
    low: float | None = None
    """95 % interval of how much worse B is; negative: better."""
    high: float | None = None
    margin: float | None = None
    in_time: str = ""
    """After equal time, where it is not as good at equal samples: a faster arm may make up for it."""


def is_higher_better(name: str) -> bool:
    return any(word in name.lower().replace("_", " ").split() for word in _HIGHER)


def parity_of(plan: Plan, measures: Sequence[ArmMeasure]) -> Parity:
    if not plan.seeds:
        return _cannot(plan.no_seeds or "the command takes no seed")
    told = [one for one in measures if one.metric]
    missing = next((one.metric_missing for one in measures if one.metric_missing), "")
    if not told:
        return _cannot(missing or "no loss or return was seen in the logs yet")
    name, by = told[0].metric_name, told[0].metric_by
    if {(one.metric_name, one.metric_by) for one in told} != {(name, by)}:
        return _cannot("the arms print different figures, or count them differently")
    at = min(one.metric[-1][0] for one in told)
    values = {arm: _by_seed([one for one in told if one.arm is arm], at) for arm in Arm}
    seeds = sorted(set(values[Arm.A]) & set(values[Arm.B]))
    if len(seeds) < SEEDS:
        few = f"{name} of both arms is known for {len(seeds)} of {SEEDS} seeds"
        return _cannot(f"{few}: {missing}" if missing else few)
    a, b = (tuple(values[arm][seed] for seed in seeds) for arm in (Arm.A, Arm.B))
    higher = plan.higher_is_better if plan.higher_is_better is not None else is_higher_better(name)
    found = _judged(name, at, by, a, b, higher, max(one.metric_unit for one in told))
    return found if found.state is ParityState.AS_GOOD else replace(found, in_time=_in_time(told, name, by))


def _in_time(told: Sequence[ArmMeasure], name: str, by: str) -> str:
    """As if the steady speed had been there from the first step on."""
    unit = by.replace(" ", "_")
    timed = [
        (one.arm, [(x / rate, y) for x, y in one.metric])
        for one in told
        if (rate := (one.rates or {}).get(unit))
    ]
    curves = {arm: [curve for of, curve in timed if of is arm] for arm in Arm}
    if not all(curves.values()):
        return ""
    at_s = min(curve[-1][0] for _, curve in timed)
    a, b = (fmean(value_at(curve, at_s) for curve in curves[arm]) for arm in Arm)
    return f"{name} after {at_s:.3g} s at these speeds: {a:.4g} in A, {b:.4g} in B"


def _by_seed(measures: Sequence[ArmMeasure], at: float) -> dict[int, float]:
    """The mean over the trials of a seed, or there would be as many seeds as trials."""
    found: dict[int, list[float]] = {}
    for one in measures:
        if one.seed is not None:
            found.setdefault(one.seed, []).append(value_at(one.metric, at))
    return {seed: fmean(values) for seed, values in found.items()}


def value_at(curve: Sequence[tuple[float, float]], at: float) -> float:
    """The mean over the last part of the way there; between two points where none lies in it."""
    near = [y for x, y in curve if (1 - LAST_SHARE) * at < x <= at]
    if near:
        return fmean(near)
    before = max((point for point in curve if point[0] <= at), default=curve[0])
    after = min((point for point in curve if point[0] > at), default=curve[-1])
    if after[0] <= before[0]:
        return before[1]
    share = (at - before[0]) / (after[0] - before[0])
    return before[1] + share * (after[1] - before[1])


def _judged(
    name: str, at: float, by: str, a: tuple[float, ...], b: tuple[float, ...], higher: bool, unit: float
) -> Parity:
    """`unit`: of the last digit printed. Two figures that look alike may be so much apart."""
    where = f"{name} at {at:,.0f} {by}"
    if not all(map(math.isfinite, a)):
        return Parity(ParityState.CANNOT_TELL, f"{where}: A itself diverges", name, at, by, a, b)
    if not all(map(math.isfinite, b)):
        return Parity(ParityState.WORSE, f"{where}: B diverges, A does not", name, at, by, a, b)
    worse = [(x - y) if higher else (y - x) for x, y in zip(a, b, strict=True)]
    mean, count = fmean(worse), len(worse)
    half = two_sided_t(0.05, count - 1) * stdev(worse) / math.sqrt(count) + unit
    margin = MARGIN * (max(a) - min(a))
    low, high = mean - half, mean + half
    shown = f"{where}: {fmean(a):.4g} in A, {fmean(b):.4g} in B over {count} seeds"
    limit = f"; allowed is {margin:.2g}, twice the spread of A's seeds"
    if high <= margin:
        state, text = ParityState.AS_GOOD, f"{shown}; worse by at most {max(0.0, high):.2g}{limit}"
    elif low > 0 and mean > margin:
        state, text = ParityState.WORSE, f"{shown}; worse by {mean:.2g}{limit}"
    else:
        state = ParityState.CANNOT_TELL
        text = f"{shown}; it may be worse by {high:.2g}{limit}: that many seeds cannot tell"
    return Parity(state, text, name, at, by, a, b, mean, low, high, margin)


def _cannot(text: str) -> Parity:
    return Parity(ParityState.CANNOT_TELL, text)
