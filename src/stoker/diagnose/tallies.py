"""Averages per method, and failures per setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.diagnose.cases import Case
from stoker.diagnose.trial import Trial


@dataclass(frozen=True, slots=True)
class MethodAverage:
    method: str
    cases: int
    with_util: int
    util_pct: float | None
    with_memory: int
    peak_mem_mib: float | None
    """Mean of the fuller GPU's peak; only where every case of the method has it."""
    samples_per_s: float | None


def method_averages(cases: Sequence[Case]) -> tuple[MethodAverage, ...]:
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if case.method and case.chosen.ok is not False:
            groups.setdefault(case.method, []).append(case)
    rows = [_average(method, group) for method, group in groups.items()]
    return tuple(sorted(rows, key=lambda row: -(row.util_pct or 0.0)))


def _average(method: str, group: Sequence[Case]) -> MethodAverage:
    utils = [case.chosen.util_pct for case in group if case.chosen.util_pct is not None]
    memories = [case.chosen.peak_mem_mib for case in group if case.chosen.peak_mem_mib is not None]
    speeds = [case.chosen.samples_per_s for case in group if case.chosen.samples_per_s is not None]
    return MethodAverage(
        method=method,
        cases=len(group),
        with_util=len(utils),
        util_pct=sum(utils) / len(utils) if utils else None,
        with_memory=len(memories),
        peak_mem_mib=sum(memories) / len(memories) if memories and len(memories) == len(group) else None,
        samples_per_s=sum(speeds) / len(speeds) if speeds and len(speeds) == len(group) else None,
    )


@dataclass(frozen=True, slots=True)
class SettingRecord:
    """How often a setting was tried, over all cases, and how it failed."""

    setting: str
    attempts: int
    failures: int
    kinds: tuple[tuple[str, int], ...]
    cases: tuple[str, ...]
    """The cases that failed with it."""


def failure_rates(trials: Sequence[Trial]) -> tuple[SettingRecord, ...]:
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.ok is not None or (trial.iterations and trial.setting.num_envs is not None):
            groups.setdefault(trial.setting.label(), []).append(trial)
    records = [_record(setting, group) for setting, group in groups.items()]
    return tuple(sorted(records, key=lambda record: (-record.failures / record.attempts, -record.attempts)))


def _record(setting: str, group: Sequence[Trial]) -> SettingRecord:
    failed = [trial for trial in group if trial.ok is False]
    kinds = Counter(trial.failure.value if trial.failure else "not said" for trial in failed)
    return SettingRecord(
        setting, len(group), len(failed), tuple(kinds.most_common()), tuple(trial.case for trial in failed)
    )
