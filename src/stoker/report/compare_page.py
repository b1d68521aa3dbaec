"""The page of `stoker classify --compare BEFORE AFTER`."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.cases import Case
from stoker.diagnose.classes import CaseClass
from stoker.diagnose.compare import NOTICEABLE, Change
from stoker.diagnose.labels import listed
from stoker.report.figures import counted, shown
from stoker.report.page import Block, NextCommand, Notes, Page, Sentence, Table

SCHEMA = "stoker.classify.compare/1"
_SHORT = {
    CaseClass.VRAM_BOUND: "VRAM",
    CaseClass.COMPUTE_HEAVY: "compute",
    CaseClass.BALANCED: "balanced",
    CaseClass.THROUGHPUT_BOUND: "env",
    CaseClass.UNCLASSIFIABLE: "no class",
}


def page(changes: Sequence[Change], before: str, after: str) -> Page:
    both = [change for change in changes if change.before and change.after]
    moved = tuple(_row(change) for change in both if change.is_noticeable)
    blocks: list[Block] = [Sentence(_sentence(changes))]
    if moved:
        blocks.append(
            Table("What changed", ("case", "before", "after", "samples/s", ""), moved, frozenset({3}))
        )
    blocks += [
        Notes("On one side only", _one_sided(changes)),
        Notes("What this cannot say", _doubts(both, before, after)),
        NextCommand(f"stoker classify {after}", "for the classes and what to do"),
    ]
    return Page(f"{before} -> {after}", counted(len(changes), "case"), tuple(blocks))


def _sentence(changes: Sequence[Change]) -> str:
    counts = [
        (sum(change.class_changed for change in changes), "changed class"),
        (sum((change.speed_ratio or 1) > NOTICEABLE for change in changes), "got faster"),
        (sum((change.speed_ratio or 1) < 1 / NOTICEABLE for change in changes), "got slower"),
        (sum(change.works == "stopped working" for change in changes), "stopped working"),
        (sum(change.works == "works now" for change in changes), "came back to work"),
        (sum(change.after is None for change in changes), "only before"),
        (sum(change.before is None for change in changes), "only after"),
    ]
    said = [f"{count} {words}" for count, words in counts if count]
    return f"{counted(len(changes), 'case')}: {', '.join(said) or 'nothing changed by more than 5 %'}."


def _one_sided(changes: Sequence[Change]) -> tuple[str, ...]:
    gone = [change.case for change in changes if change.after is None]
    new = [change.case for change in changes if change.before is None]
    sides = (("only before", gone), ("only after", new))
    return tuple(f"{words}: {listed(names, 8)}" for words, names in sides if names)


def _row(change: Change) -> tuple[str, ...]:
    speed = "?" if change.speed_ratio is None else f"x{change.speed_ratio:.2f}"
    remarks = [change.works] if change.works else []
    if change.before and change.after and not change.like_for_like:
        remarks.append("other setting")
    return (change.case, _side(change.before), _side(change.after), speed, ", ".join(remarks))


def _side(case: Case | None) -> str:
    if case is None:
        return "-"
    if case.chosen.ok is False:
        return case.chosen.row.status if case.chosen.row else "failed"
    return f"{_SHORT[case.case_class]} {shown(case.chosen.util_pct, 1)}"


def _doubts(both: Sequence[Change], before: str, after: str) -> tuple[str, ...]:
    lines = []
    unlike = [change.case for change in both if not change.like_for_like]
    if unlike:
        lines.append(
            f"{counted(len(unlike), 'case')} ran another setting: what changed is not the code alone"
        )
    if both:
        lines.append("one run on each side: without repeats, a few per cent are noise")
    if not both:
        lines.append(f"no case is in both {before} and {after}")
    return tuple(lines)


def as_data(changes: Sequence[Change]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "cases": [
            {
                "case": change.case,
                "before": _data(change.before),
                "after": _data(change.after),
                "class_changed": change.class_changed,
                "speed_ratio": change.speed_ratio,
                "works": change.works,
                "like_for_like": change.like_for_like,
            }
            for change in changes
        ],
    }


def _data(case: Case | None) -> dict[str, object] | None:
    if case is None:
        return None
    chosen = case.chosen
    return {
        "class": case.case_class.value,
        "ok": chosen.ok,
        "setting": chosen.setting.label(),
        "util_pct": chosen.util_pct,
        "samples_per_s": chosen.samples_per_s,
    }


def as_tsv(changes: Sequence[Change]) -> str:
    lines = ["case\tbefore\tafter\tspeed_ratio\tworks\tlike_for_like"]
    for change in changes:
        ratio = "" if change.speed_ratio is None else f"{change.speed_ratio:.4f}"
        cells = (
            change.case,
            _side(change.before),
            _side(change.after),
            ratio,
            change.works,
            str(int(change.like_for_like)),
        )
        lines.append("\t".join(" ".join(cell.split()) for cell in cells))
    return "\n".join(lines) + "\n"
