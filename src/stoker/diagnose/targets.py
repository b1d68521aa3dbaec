"""Targets a user has set (`util=80`, `memory=90`), asked of every case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.diagnose.cases import Case
from stoker.diagnose.classes import CaseClass


class TargetName(StrEnum):
    UTIL = "util"
    MEMORY = "memory"
    SPEED = "samples_per_s"


@dataclass(frozen=True, slots=True)
class Target:
    name: TargetName
    value: float


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    case: str
    target: Target
    met: bool | None
    figure: float | None
    why_unknown: str = ""


def answers_of(cases: Sequence[Case], targets: Sequence[Target]) -> tuple[TargetAnswer, ...]:
    return tuple(_answer(case, target) for target in targets for case in cases)


def _answer(case: Case, target: Target) -> TargetAnswer:
    figure, why = _figure(case, target.name)
    return TargetAnswer(case.name, target, None if figure is None else figure >= target.value, figure, why)


def _figure(case: Case, name: TargetName) -> tuple[float | None, str]:
    chosen = case.chosen
    if name is TargetName.SPEED:
        return chosen.samples_per_s, "" if chosen.samples_per_s is not None else "no samples/s in these files"
    if name is TargetName.UTIL:
        if case.case_class is CaseClass.UNCLASSIFIABLE:
            return None, case.judgement.why
        return chosen.util_pct, ""
    if chosen.peak_mem_mib is None:
        return None, "no memory in these files"
    if not chosen.mem_total_mib:
        return None, "card size not in these files"
    return 100 * chosen.peak_mem_mib / chosen.mem_total_mib, ""
