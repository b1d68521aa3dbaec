"""The page of `stoker ab`: the verdict in a sentence, both arms side by side, the pairs, what is doubtful."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from stoker.report.figures import counted, duration, rate, size
from stoker.report.page import Block, Excerpt, Facts, NextCommand, Notes, Page, Sentence, Table
from stoker.trials.ab.answer import Answer
from stoker.trials.ab.measure import Arm, ArmMeasure
from stoker.trials.ab.parity import ParityState
from stoker.trials.ab.plan import AS_IT_IS, CONFIRMING, END_S, ArmPlan, Plan
from stoker.trials.ab.session import Ended
from stoker.trials.ab.sessions import short_name
from stoker.trials.ab.statistics import SAME_FRAC, Estimate, Outcome

UNIT_WORDS = {
    "env_steps": "env steps",
    "samples": "samples",
    "rows": "rows",
    "ticks": "updates",
    "": "work",
}
_EXACT = "what differs changes neither the samples nor the arithmetic: no check of the loss"
_PARITY = {
    ParityState.AS_GOOD: "B trains as well",
    ParityState.WORSE: "B trains worse",
    ParityState.CANNOT_TELL: "Whether B trains as well cannot be told",
}


def build(ended: Ended, folder: Path) -> Page:
    """`folder`: of the session."""
    found = ended.answer
    blocks: list[Block] = [
        Sentence(sentence(ended)),
        Facts(_arms_named(ended.plan)),
    ]
    if ended.measures:
        blocks.append(_arms(ended))
    if found.pairs:
        blocks.append(_pairs(found))
    blocks += [
        Notes("What is compared", _compared(ended)),
        Notes("What went wrong", _troubles(ended.measures)),
        *_last_words(ended.measures),
        Notes("What to do", (found.help,) if found.help else ()),
        _next(ended, folder),
    ]
    return Page("A against B", _status(ended), tuple(blocks))


def _arms_named(plan: Plan) -> tuple[tuple[str, str], ...]:
    a, b = shlex.join(plan.a.command), shlex.join(plan.b.command)
    if a == b:
        return (("A", plan.a.label), ("B", plan.b.label), ("of", a))
    return (("A", _side(plan.a)), ("B", _side(plan.b)))


def _side(arm: ArmPlan) -> str:
    command = shlex.join(arm.command)
    return command if arm.label == AS_IT_IS else f"{arm.label}: {command}"


def _status(ended: Ended) -> str:
    pairs = counted(len(ended.answer.pairs), "pair")
    return f"{pairs}, so far" if ended.stopped else f"{ended.answer.outcome}, {pairs}"


def sentence(ended: Ended) -> str:
    found = ended.answer
    if ended.stopped:
        return f"No verdict yet ({ended.stopped}): {_so_far(found)}"
    unit = UNIT_WORDS[found.unit]
    match found.outcome:
        case Outcome.WIN | Outcome.LOSS:
            assert found.estimate is not None
            how = "faster" if found.outcome is Outcome.WIN else "slower"
            text = f"{found.outcome}: B is {how}, {_ratio(found.estimate)} the {unit} per second of A."
            return text + _parity_clause(found)
        case Outcome.SAME:
            assert found.estimate is not None
            return (
                f"SAME: B does {_ratio(found.estimate)} the {unit} per second of A; the difference is "
                f"within {100 * SAME_FRAC:.0f} %."
            )
        case Outcome.AMBIGUOUS:
            return f"AMBIGUOUS: {_so_far(found)} The noise of this machine hides which is faster."
        case _:
            return f"{found.outcome}: {found.reason}"


def _ratio(found: Estimate) -> str:
    """`1.34 times (95 % interval 1.30 to 1.38)`."""
    return f"{found.ratio:.3g} times (95 % interval {_bound(found.low)} to {_bound(found.high)})"


def _bound(value: float) -> str:
    if value > 1000:
        return "more than 1000"
    return f"{value:.3f}" if 0.5 < value < 2 else f"{value:.3g}"


def _so_far(found: Answer) -> str:
    if found.estimate is None:
        return f"{counted(len(found.pairs), 'pair')} measured, two are needed for an interval."
    return f"B does {_ratio(found.estimate)} the {UNIT_WORDS[found.unit]} per second of A."


def _parity_clause(found: Answer) -> str:
    if found.parity is None or found.outcome is Outcome.LOSS:
        return ""
    if found.parity.state is ParityState.AS_GOOD:
        return " It trains as well."
    return " Whether it trains as well cannot be told: see below."


def _arms(ended: Ended) -> Table:
    rows = [row for row in _rows(ended) if any(cell not in ("", "?") for cell in row[1:3])]
    return Table("Both arms", ("", "A", "B", ""), tuple(rows), frozenset({1, 2}))


_Row = tuple[str, str, str, str]


def _rows(ended: Ended) -> list[_Row]:
    arms = [[one for one in ended.measures if one.arm is arm] for arm in Arm]
    usable = [[one for one in arm if one.usable] for arm in arms]

    def both(name: str, attribute: str, show: Callable[[float], str], note: str = "") -> _Row:
        a, b = (_middle(arm, attribute) for arm in usable)
        return (name, "?" if a is None else show(a), "?" if b is None else show(b), note)

    return [
        _speed(ended.answer, usable),
        *(_two_trainings(both) if ended.answer.differs else ()),
        both("GPU busy", "busy_pct", lambda value: f"{value:.0f} %", "shown, not ranked on"),
        both("GPU real work", "real_work_pct", lambda value: f"{value:.0f} %"),
        both("GPU memory peak", "memory_peak_bytes", size),
        both("start to first update", "start_s", duration),
        both("whole training", "whole_s", _long, _whole_source(usable)),
        ("failed trials", _failures(arms[0]), _failures(arms[1]), ""),
    ]


def _two_trainings(both: Callable[..., _Row]) -> tuple[_Row, _Row]:
    return (
        both("updates per env step", "updates_per_env_step", lambda value: f"{value:.3g}"),
        both("samples per update", "samples_per_tick", lambda value: f"{value:,.4g}"),
    )


def _speed(found: Answer, usable: Sequence[Sequence[ArmMeasure]]) -> _Row:
    rates = [[one.rates[found.unit] for one in arm if one.rates and found.unit] for arm in usable]
    a, b = (rate(median(values)) if values else "?" for values in rates)
    ratio = f"x{found.estimate.ratio:.3g} by pairs" if found.estimate else ""  # medians may say other
    return (f"{UNIT_WORDS[found.unit]}/s", a, b, ratio)


def _middle(measures: Sequence[ArmMeasure], attribute: str) -> float | None:
    values = [value for one in measures if (value := getattr(one, attribute)) is not None]
    return median(values) if values else None


def _long(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 5400 else duration(seconds)


def _whole_source(usable: Sequence[Sequence[ArmMeasure]]) -> str:
    return next((f"by {one.whole_from}" for arm in usable for one in arm if one.whole_from), "")


def _failures(measures: Sequence[ArmMeasure]) -> str:
    return f"{sum(one.failure is not None for one in measures)} of {len(measures)}" if measures else "?"


def _pairs(found: Answer) -> Table:
    rows = tuple(
        (
            str(pair.pair),
            "A B" if pair.a.order == 0 else "B A",
            rate((pair.a.rates or {})[found.unit]),
            rate((pair.b.rates or {})[found.unit]),
            f"{pair.ratio:.3f}",
        )
        for pair in found.pairs
    )
    heading = f"Pairs, {UNIT_WORDS[found.unit]} per second"
    return Table(heading, ("pair", "order", "A", "B", "B/A"), rows, frozenset({0, 2, 3, 4}))


def _compared(ended: Ended) -> tuple[str, ...]:
    found = ended.answer
    lines = [*found.differs, *(_how(ended) if found.pairs else ())]
    if found.outcome not in (Outcome.WIN, Outcome.LOSS):
        lines += sorted({doubt for one in ended.measures for doubt in one.doubtful})
    lines += sorted({note for one in ended.measures for note in one.notes})
    return tuple(lines)


def _how(ended: Ended) -> list[str]:
    plan, found, lines = ended.plan, ended.answer, []
    if found.parity is not None:
        lines.append(f"{_PARITY[found.parity.state]}: {found.parity.text}")
        lines += [found.parity.in_time] if found.parity.in_time else []
    elif not plan.needs_parity:
        lines.append(_EXACT if plan.a != plan.b else "nothing differs: this shows the noise of the machine")
    if plan.windows.min_s < CONFIRMING.min_s:
        lines.append(
            f"windows of {plan.windows.min_s:.3g} s: a longer warm-up, a slow drift or a rare stall may have "
            "been missed"
        )
    if found.outcome is Outcome.SAME and found.estimate and found.estimate.p < found.estimate.p_needed:
        lines.append(f"there is a difference, too small to count: {100 * (found.estimate.ratio - 1):+.1f} %")
    return lines


def _troubles(measures: Sequence[ArmMeasure]) -> tuple[str, ...]:
    lines = []
    for one in measures:
        if one.failure is not None:
            hint = f" ({one.failure.hint})" if one.failure.hint else ""
            lines.append(f"{_trial(one)} failed, {one.failure.kind}: {one.failure.text.strip()}{hint}")
        elif not one.usable:
            lines.append(f"{_trial(one)} is not counted: {one.invalid or one.remark}")
    return tuple(lines)


def _last_words(measures: Sequence[ArmMeasure]) -> list[Block]:
    last = next((one.failure for one in reversed(measures) if one.failure and one.failure.tail), None)
    return [Excerpt("The log of the last failed trial ends", last.tail)] if last is not None else []


def _trial(one: ArmMeasure) -> str:
    again = ", again" if one.attempt > 1 else ""
    return f"pair {one.pair}, {one.arm}{again}"


def _next(ended: Ended, folder: Path) -> NextCommand:
    if ended.stopped:
        return NextCommand(f"stoker ab --resume {short_name(folder)}", "goes on where it stopped")
    if ended.answer.again:
        return NextCommand(f"stoker ab {ended.answer.again} …", "the rest as before")
    if not ended.measures:
        return NextCommand("stoker ab --help", "")
    last = max(ended.measures, key=lambda one: (one.arm is Arm.B, one.pair, one.attempt))
    return NextCommand(f"stoker why {folder / last.folder}", f"{last.arm}'s last trial")


def plan_page(plan: Plan, limit_s: float | None = None) -> Page:
    """`--dry-run`; `limit_s` is what `--time` gives."""
    worst_s = plan.worst_case_s if limit_s is None else min(plan.worst_case_s, limit_s + END_S)
    order = "AB, BA, AB, …" if plan.order_seed is None else f"drawn for each pair (seed {plan.order_seed})"
    windows = plan.windows
    facts = (
        ("A", _side(plan.a)),
        ("B", _side(plan.b)),
        ("pairs", f"3 to {plan.pairs}, order {order}"),
        (
            "each trial",
            f"{windows.name}: at least {windows.min_s:.0f} s and {windows.min_ticks} ticks of steady "
            f"training, {windows.max_s:.0f} s at most",
        ),
        *(("before each", shlex.join(words)) for words in plan.preflight),
        ("what differs", _kind_words(plan)),
        ("takes", f"about {duration(plan.usual_s)} if it starts quickly and all pairs are needed"),
        ("at most", duration(worst_s)),
    )
    return Page("A against B", "a plan, nothing was run", (Facts(facts),))


def _kind_words(plan: Plan) -> str:
    if not plan.needs_parity:
        return "exact: same samples, same arithmetic; no check of the loss"
    seeds = f"loss or return at equal samples with the seeds {', '.join(map(str, plan.seeds))}"
    return f"{plan.kind}: {seeds if plan.seeds else f'the loss cannot be compared: {plan.no_seeds}'}"
