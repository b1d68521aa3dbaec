"""From the trials so far to an answer: which outcome, why, and whether the session is over.

A pure function of the plan and the measures, so that a session, a resumed one and a page say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from stoker.model.failure import FailureClass
from stoker.trials.ab.advice import advise, spread_of
from stoker.trials.ab.measure import UNITS, Arm, ArmMeasure
from stoker.trials.ab.parity import Parity, ParityState, parity_of
from stoker.trials.ab.plan import REPEATS_MAX, SCREENING, Plan
from stoker.trials.ab.statistics import FIRST_LOOK, Estimate, Outcome, estimate, look

CHANGED = 0.02
"""Updates per env step, or samples per update, that differ by more: another training."""
NOT_AGAIN = (FailureClass.USER_ERROR.value, FailureClass.NUMERIC.value)
"""Failures which the same command has again."""
BY_HAND = "run its command by hand first; all it said here is in output.log of the trial's folder"
SHORTEST_S = 5.0
"""Nobody is told to take windows shorter than this."""
SPOILED_FIRST = 2
"""So many pairs without a result, before any with one, and the session ends."""


@dataclass(frozen=True, slots=True)
class PairResult:
    pair: int
    a: ArmMeasure
    b: ArmMeasure
    ratio: float


@dataclass(frozen=True, slots=True)
class Answer:
    outcome: Outcome
    final: bool
    """Nothing more needs to be run."""
    reason: str = ""
    help: str = ""
    again: str = ""
    """Flags with which the same comparison would likely be settled."""
    unit: str = ""
    pairs: tuple[PairResult, ...] = ()
    estimate: Estimate | None = None
    parity: Parity | None = None
    differs: tuple[str, ...] = ()
    """In what the arms train differently, as seen in their runs."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The next trial to run."""

    arm: Arm
    pair: int
    order: int
    attempt: int
    seed: int | None


def answer(plan: Plan, measures: Sequence[ArmMeasure]) -> Answer:
    found = _by_speed(plan, measures)
    broken = _broken(measures)
    if broken is not None:
        return replace(found, outcome=Outcome.INVALID, final=True, reason=broken[0], help=broken[1])
    if not plan.needs_parity:
        return found
    parity = parity_of(plan, [one for one in measures if one.failure is None])
    found = replace(found, parity=parity)
    settled = found.final and found.outcome in (Outcome.WIN, Outcome.SAME, Outcome.AMBIGUOUS)
    if settled and parity.state is ParityState.WORSE:
        return replace(found, outcome=Outcome.INVALID, reason=f"B trains worse: {parity.text}")
    return found


def next_turn(plan: Plan, measures: Sequence[ArmMeasure]) -> Turn | None:
    """The missing arm of the missing pair; None where all pairs were tried."""
    repeats = sum(one.attempt > 1 for one in measures)
    for pair in range(1, plan.pairs + 1):
        for order, arm in enumerate(plan.order(pair)):
            tried = [one for one in measures if (one.pair, one.arm) == (pair, arm)]
            if any(one.usable for one in tried):
                continue
            if not tried or (len(tried) == 1 and repeats < REPEATS_MAX):
                return Turn(arm, pair, order, len(tried) + 1, plan.seed(pair))
            break  # this pair is spoiled: its other arm would be of no use
    return None


def _by_speed(plan: Plan, measures: Sequence[ArmMeasure]) -> Answer:
    pairs, unit = _pairs(measures)
    ratios = [math.log(pair.ratio) for pair in pairs]
    known = Answer(
        Outcome.AMBIGUOUS,
        False,
        unit=unit,
        pairs=pairs,
        estimate=estimate(ratios, plan.rule),
        differs=_differences(measures),
    )
    short = next((one for one in measures if one.too_short), None)
    if short is not None:
        return replace(
            known, outcome=Outcome.UNSTEADY, final=True, reason=short.remark, help=_longer(plan, short)
        )
    seen = look(ratios, plan.rule)
    if seen is Outcome.AMBIGUOUS:
        return _advised(plan, replace(known, final=True))
    if seen is not None:
        return replace(known, outcome=seen, final=True)
    spoiled = _spoiled(plan, measures)
    over = next_turn(plan, measures) is None or (not pairs and len(spoiled) >= SPOILED_FIRST)
    if not over:
        return replace(known, reason=f"{len(pairs)} of at most {plan.pairs} pairs are measured")
    if len(pairs) >= FIRST_LOOK:
        why = f"some pairs gave no result: {spoiled[-1].remark}"
        return _advised(plan, replace(known, final=True, reason=why))
    return _without_pairs(known, spoiled)


def _advised(plan: Plan, known: Answer) -> Answer:
    arms = [(pair.a, pair.b) for pair in known.pairs]
    found = advise(plan, spread_of([math.log(pair.ratio) for pair in known.pairs], arms))
    return replace(known, help=found.text, again=found.flags)


def _longer(plan: Plan, short: ArmMeasure) -> str:
    if not short.ticks:
        return "compare a command that trains; what is seen of this one: stoker run -- COMMAND"
    shorter = "--quick" if plan.windows.min_s > SCREENING.min_s else "--window 5s"
    if plan.windows.min_s <= SHORTEST_S:
        return "let it train longer (more steps or epochs)"
    return f"let it train longer (more steps or epochs), or take shorter windows: {shorter}"


def _without_pairs(known: Answer, spoiled: Sequence[ArmMeasure]) -> Answer:
    last = spoiled[-1]
    if last.invalid:
        return replace(known, outcome=Outcome.INVALID, final=True, reason=last.invalid)
    help_ = "stoker why on its folder says more; longer windows may help (without --quick)"
    reason = f"{last.arm}: {last.remark}"
    return replace(known, outcome=Outcome.UNSTEADY, final=True, reason=reason, help=help_)


def _pairs(measures: Sequence[ArmMeasure]) -> tuple[tuple[PairResult, ...], str]:
    usable = {(one.pair, one.arm): one for one in measures if one.usable}
    unit = _unit(list(usable.values()))
    found = []
    for pair in sorted({number for number, _ in usable}):
        a, b = usable.get((pair, Arm.A)), usable.get((pair, Arm.B))
        if a is not None and b is not None and a.rates and b.rates and unit:
            found.append(PairResult(pair, a, b, b.rates[unit] / a.rates[unit]))
    return tuple(found), unit


def _unit(usable: Sequence[ArmMeasure]) -> str:
    """The most telling that all have; rows of the model only where their number changes."""
    known = [unit for unit in UNITS if usable and all((m.rates or {}).get(unit) for m in usable)]
    if _both(usable, "rows_per_tick") is None:
        known = [unit for unit in known if unit != "rows"]
    return known[0] if known else ""


def _spoiled(plan: Plan, measures: Sequence[ArmMeasure]) -> list[ArmMeasure]:
    """The last trial of each arm that was tried in vain as often as it may be, oldest first."""
    turn = next_turn(plan, measures)
    found = []
    for key in dict.fromkeys((one.pair, one.arm) for one in measures):
        tried = [one for one in measures if (one.pair, one.arm) == key]
        waiting = turn is not None and (turn.pair, turn.arm) == key
        if not waiting and not any(one.usable for one in tried):
            found.append(tried[-1])
    return found


def _broken(measures: Sequence[ArmMeasure]) -> tuple[str, str] | None:
    """What ends a session whatever its speeds are: a setting without effect, an arm that fails."""
    dead = next((one for one in measures if one.dead), None)
    if dead is not None:
        return (
            f"{dead.arm}: {'; '.join(dead.dead)}",
            "take a setting the script reads; stoker knobs lists ours",
        )
    for arm in Arm:
        failed = [one for one in measures if one.arm is arm and one.failure is not None]
        last = failed[-1].failure if failed else None
        if last is not None and (len(failed) >= 2 or last.kind in NOT_AGAIN):
            of = sum(one.arm is arm for one in measures)
            reason = f"{arm} fails ({len(failed)} of {of} trials), {last.kind}: {last.text.strip()}"
            return reason, last.hint or (BY_HAND if last.kind == FailureClass.USER_ERROR.value else "")
    return None


def _differences(measures: Sequence[ArmMeasure]) -> tuple[str, ...]:
    lines = []
    updates = _both(measures, "updates_per_env_step")
    if updates is not None:
        lines.append(
            f"A makes {updates[0]:.3g} updates per env step, B {updates[1]:.3g}: "
            "two different trainings, compared as such by their env steps per second"
        )
    row = _both(measures, "updates_in_a_row")
    if row is not None and updates is None:
        a = "1 update" if row[0] == 1 else f"{row[0]:.3g} updates"
        lines.append(
            f"A makes {a} in a row, B {row[1]:.3g}, both as many for an env step: "
            "the same work in other portions"
        )
    batch = _both(measures, "samples_per_tick")
    if batch is not None and updates is None:
        lines.append(
            f"A takes {batch[0]:,.4g} samples per update, B {batch[1]:,.4g}: for the same samples B makes "
            f"{batch[0] / batch[1]:.3g} times the updates, and is compared as such"
        )
    rows = _both(measures, "rows_per_tick")
    if rows is not None and batch is None and updates is None:
        lines.append(
            f"A's model is given {rows[0]:,.4g} rows for an update, B's {rows[1]:,.4g}: "
            "two different trainings, compared as such"
        )
    return tuple(lines)


def _both(measures: Sequence[ArmMeasure], name: str) -> tuple[float, float] | None:
    """Medians of both arms where they differ."""
    values: dict[Arm, list[float]] = {Arm.A: [], Arm.B: []}
    for one in measures:
        value = getattr(one, name)
        if one.failure is None and value:
            values[one.arm].append(value)
    if not values[Arm.A] or not values[Arm.B]:
        return None
    a, b = median(values[Arm.A]), median(values[Arm.B])
    return (a, b) if abs(b / a - 1) > CHANGED else None
