"""The page of `stoker classify`: the sentence, what the numbers say, what to do, what they cannot say."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.analysis import Analysis
from stoker.diagnose.cases import Case
from stoker.diagnose.classes import CaseClass, Limits
from stoker.diagnose.labels import listed
from stoker.diagnose.policy import Goal, actions_of
from stoker.report.classify_tables import details, evidence_tables, symptom_lines
from stoker.report.figures import counted, pair, shown
from stoker.report.page import Bar, Bars, Block, Facts, NextCommand, Notes, Page, Sentence, Table

_MEANING = {
    CaseClass.VRAM_BOUND: "the card's memory is the limit",
    CaseClass.COMPUTE_HEAVY: "the GPU is busy computing",
    CaseClass.BALANCED: "neither memory nor compute is at its limit",
    CaseClass.THROUGHPUT_BOUND: "the GPU waits for something else",
}
_JUDGED = tuple(_MEANING)


def page(analysis: Analysis, title: str, *, every_detail: bool = False) -> Page:
    blocks: list[Block] = [Sentence(_sentence(analysis))]
    blocks += _shares(analysis)
    blocks.append(Notes("What the numbers say beyond a class", _observations(analysis)))
    for case_class in _JUDGED:
        blocks += _group(case_class, analysis.of_class(case_class))
    blocks += _unclassified(analysis)
    blocks += evidence_tables(analysis)
    blocks.append(Notes("Symptoms", symptom_lines(analysis)))
    if every_detail or len(analysis.cases) <= 2:
        blocks += details(analysis)
    blocks.append(Notes("Replaced by a later root", _replaced(analysis)))
    blocks.append(Notes("What these files cannot say", analysis.unsaid))
    blocks.append(Notes("Lines that could not be read", bad_lines(analysis)))
    blocks.append(Notes("How it was read", _remarks(analysis)))
    blocks.append(_next(analysis))
    return Page(
        title,
        f"{counted(len(analysis.cases), 'case')}, {counted(len(analysis.files), 'file')}",
        tuple(blocks),
    )


def _sentence(analysis: Analysis) -> str:
    groups = [(case_class, len(analysis.of_class(case_class))) for case_class in CaseClass]
    parts = [f"{count} {case_class.value}" for case_class, count in groups if count]
    if not parts:
        return "No case in these files; what they hold is below."
    count = counted(len(analysis.cases), "case")
    if len(analysis.cases) == 1:
        case = analysis.cases[0]
        return f"{case.name} is {case.case_class.value}: {case.judgement.why}."
    if len(analysis.of_class(CaseClass.UNCLASSIFIABLE)) == len(analysis.cases):
        return f"{count}, and none can be classified: {_why_none(analysis)}."
    if len(parts) == 1:
        return f"{count}, all {analysis.cases[0].case_class.value}."
    return f"{count}: {', '.join(parts[:-1])} and {parts[-1]}."


def _why_none(analysis: Analysis) -> str:
    reasons = {case.judgement.why for case in analysis.cases}
    return next(iter(reasons)).replace("this file", "these files") if len(reasons) == 1 else "see below"


def _shares(analysis: Analysis) -> list[Block]:
    total = len(analysis.cases)
    if total < 4:
        return []
    rows = [
        Bar(
            case_class.value,
            100 * count / total,
            counted(count, "case"),
            case_class is CaseClass.UNCLASSIFIABLE,
        )
        for case_class in CaseClass
        if (count := len(analysis.of_class(case_class)))
    ]
    return [Bars("Cases by class", tuple(rows))]


def _observations(analysis: Analysis) -> tuple[str, ...]:
    return tuple(observation.text for observation in analysis.observations)


def _group(case_class: CaseClass, cases: Sequence[Case]) -> list[Block]:
    if not cases:
        return []
    heading = f"{case_class.value} ({len(cases)}): {_MEANING[case_class]}"
    rows = tuple(_case_row(case) for case in sorted(cases, key=lambda case: -(case.chosen.util_pct or 0)))
    columns = ("case", "setting", "util %", "memory MiB", "samples/s")
    return [Table(heading, columns, rows, frozenset({2, 3, 4})), Facts(_actions(cases))]


def _case_row(case: Case) -> tuple[str, ...]:
    chosen = case.chosen
    near = "~" if case.judgement.near_limit_pct is not None else ""
    setting = chosen.setting.label() if chosen.setting.num_envs or chosen.setting.variant else "-"
    return (
        case.name,
        setting,
        near + shown(chosen.util_pct, 2),
        pair(chosen.mem_per_gpu_mib),
        shown(chosen.samples_per_s, 0),
    )


def _actions(cases: Sequence[Case]) -> tuple[tuple[str, str], ...]:
    """One line per goal; where cases of a class differ, each text with its cases."""
    rows = []
    for goal in Goal:
        texts: dict[str, list[str]] = {}
        for case in cases:
            texts.setdefault(actions_of(case)[goal], []).append(case.name)
        for text, names in texts.items():
            rows.append((f"  {goal.value}", text if len(texts) == 1 else f"{listed(names, 3)}: {text}"))
    return tuple(rows)


def _unclassified(analysis: Analysis) -> list[Block]:
    cases = analysis.of_class(CaseClass.UNCLASSIFIABLE)
    if not cases:
        return []
    rows = tuple((case.name, case.judgement.why) for case in cases)
    return [Table(f"No class ({len(cases)})", ("case", "unclassifiable because"), rows)]


def _replaced(analysis: Analysis) -> tuple[str, ...]:
    lines = []
    for case in analysis.cases:
        for trial in case.replaced:
            before = f"{trial.setting.label()}, {trial.row.status if trial.row else ''} ({trial.root.name})"
            lines.append(
                f"{case.name}: {before}, now {case.chosen.setting.label()} ({case.chosen.root.name})"
            )
    return tuple(lines)


def bad_lines(analysis: Analysis) -> tuple[str, ...]:
    lines = []
    for reading in analysis.files:
        for bad in reading.bad_lines:
            lines.append(f"{reading.path.name}:{bad.line}: {bad.why}: {bad.text.strip()}")
        hidden = reading.bad_count - len(reading.bad_lines)
        if hidden:
            lines.append(f"{reading.path.name}: and {counted(hidden, 'more line')}")
    return tuple(lines)


def _remarks(analysis: Analysis) -> tuple[str, ...]:
    remarks: dict[str, list[str]] = {}
    for reading in analysis.files:
        for note in reading.notes:
            remarks.setdefault(note, []).append(reading.path.name)
    lines = [f"{listed(list(dict.fromkeys(names)), 3)}: {note}" for note, names in remarks.items()]
    if any(case.case_class is not CaseClass.UNCLASSIFIABLE for case in analysis.cases):
        lines.append(_limits_words(analysis.limits))
    return tuple(lines)


def _limits_words(limits: Limits) -> str:
    return (
        f"utilisation is the mean of the least busy GPU, memory its peak; limits {limits.util_low_pct:g} "
        f"and {limits.util_high_pct:g} %, {limits.mem_full_mib:g} MiB (or {limits.mem_full_frac:.1%} of a "
        f"card of known size); ~ is within {limits.near_pct:g} points of a limit"
    )


def _next(analysis: Analysis) -> NextCommand:
    if any(case.case_class is CaseClass.THROUGHPUT_BOUND for case in analysis.cases) or analysis.observations:
        return NextCommand("stoker run -- python train.py …", "to see what the GPU waits for")
    return NextCommand("stoker run -- python train.py …", "to measure what is missing here")
