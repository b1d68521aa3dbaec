"""The users' own five symptoms, asked of every case: yes, no, or not in these files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stoker.diagnose.cases import Case
from stoker.diagnose.classes import LIMITS, CaseClass, Limits
from stoker.diagnose.trial import Trial

_WIDE_SWING_PCT = 40.0
_FREQUENT_FAILURES = 2


@dataclass(frozen=True, slots=True)
class Symptom:
    seen: str
    meaning: str
    action: str
    cases: tuple[str, ...]
    not_told: int
    """Cases of which the files do not hold what the question needs."""


def symptoms_of(cases: Sequence[Case], limits: Limits = LIMITS) -> tuple[Symptom, ...]:
    answers = [
        ("memory full, utilisation middling", "memory is the limit",
         "keep the setting that runs; do not raise num_envs", _memory_full),
        ("memory low, utilisation low", "the environment or the data path is the limit",
         "for the machine: one case per GPU, two at a time", _both_low),
        ("utilisation high, memory middling", "the GPU computes", "leave it running", _high),
        ("utilisation swings, mean not high, samples/s high", "phases or communication take turns",
         "judge by samples/s and return, not by utilisation", _swings),
        ("frequent out-of-memory or NCCL failures", "not stable yet",
         "lower num_envs first, utilisation later", _fails_often),
    ]  # fmt: skip
    rows = []
    for seen, meaning, action, ask in answers:
        told = [(case, ask(case, cases, limits)) for case in cases]
        names = tuple(case.name for case, answer in told if answer)
        rows.append(Symptom(seen, meaning, action, names, sum(answer is None for _, answer in told)))
    return tuple(rows)


def _memory_full(case: Case, _: Sequence[Case], limits: Limits) -> bool | None:
    if not case.judgement.memory_known or case.chosen.util_pct is None:
        return None
    return case.case_class is CaseClass.VRAM_BOUND and case.chosen.util_pct < limits.util_high_pct


def _both_low(case: Case, _: Sequence[Case], limits: Limits) -> bool | None:
    if not case.judgement.memory_known or case.case_class is CaseClass.UNCLASSIFIABLE:
        return None
    return case.case_class is CaseClass.THROUGHPUT_BOUND and bool(case.judgement.memory_low)


def _high(case: Case, _: Sequence[Case], limits: Limits) -> bool | None:
    return None if case.chosen.util_pct is None else case.case_class is CaseClass.COMPUTE_HEAVY


def _swings(case: Case, cases: Sequence[Case], limits: Limits) -> bool | None:
    swing, speed = _swing_pct(case.chosen), case.chosen.samples_per_s
    usual = _usual_speed(case, cases)
    if swing is None or speed is None or usual is None or case.chosen.util_pct is None:
        return None
    return swing >= _WIDE_SWING_PCT and case.chosen.util_pct < limits.util_high_pct and speed >= usual


def _swing_pct(trial: Trial) -> float | None:
    """Between the 10th and the 90th percentile; from a table, from the mean to the peak, twice."""
    swings = [
        gpu.p90_pct - gpu.p10_pct for gpu in trial.gpus if gpu.p90_pct is not None and gpu.p10_pct is not None
    ]
    if swings:
        return max(swings)
    if trial.row and trial.row.peak_util_pct and trial.row.mean_util_pct:
        pairs = zip(trial.row.peak_util_pct, trial.row.mean_util_pct, strict=False)
        return max(
            (2 * (peak - mean) for peak, mean in pairs if peak is not None and mean is not None), default=None
        )
    return None


def _usual_speed(case: Case, cases: Sequence[Case]) -> float | None:
    """The median of the other cases of the same setting; alone, a case is neither fast nor slow."""
    others = [
        other.chosen.samples_per_s
        for other in cases
        if other is not case
        and other.chosen.setting.label() == case.chosen.setting.label()
        and other.chosen.samples_per_s
    ]
    return median(others) if others else None


def _fails_often(case: Case, _: Sequence[Case], limits: Limits) -> bool | None:
    outcomes = [trial for trial in case.trials if trial.ok is not None]
    if not outcomes:
        return None
    failed = [trial for trial in outcomes if trial.failure and trial.failure.value != "error"]
    return len(failed) >= _FREQUENT_FAILURES or (bool(failed) and len(failed) * 2 > len(outcomes))
