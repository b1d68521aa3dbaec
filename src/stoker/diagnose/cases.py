"""Cases: of all trials of a case, the one its class is made from; what it replaces; and the judgement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.diagnose.classes import LIMITS, CaseClass, Judgement, Limits, judge
from stoker.diagnose.naming import method_by_name
from stoker.diagnose.trial import Trial
from stoker.model.evidence import Stage

_NEVER_A_CLASS = (Stage.TEST, Stage.VIZ, Stage.EVAL)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    method: str | None
    chosen: Trial
    trials: tuple[Trial, ...]
    """All of them, the chosen one too, in order of their roots."""
    judgement: Judgement
    stage_note: str
    """What is to be said about the stage the class comes from; empty for a training stage."""
    replaced: tuple[Trial, ...]

    @property
    def case_class(self) -> CaseClass:
        return self.judgement.case_class


def cases_of(trials: Sequence[Trial], limits: Limits = LIMITS) -> tuple[Case, ...]:
    by_name: dict[str, list[Trial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.order):
        if not (trial.row and trial.row.case_type == "nontrainable"):
            by_name.setdefault(trial.case, []).append(trial)
    return tuple(_case(name, group, limits) for name, group in by_name.items())


def _case(name: str, trials: list[Trial], limits: Limits) -> Case:
    chosen = max(trials, key=_preference)
    judgement = _judge(chosen, trials, limits)
    return Case(
        name=name,
        method=_method(name, trials),
        chosen=chosen,
        trials=tuple(trials),
        judgement=judgement,
        stage_note=_stage_note(chosen, judgement),
        replaced=tuple(_replaced(chosen, trials)),
    )


def _preference(trial: Trial) -> tuple[bool, bool, bool, bool, int, bool, float]:
    """A training stage with figures, that worked; the later root; the bench's own pick; the faster one."""
    has_util = trial.util_pct is not None and trial.stage not in _NEVER_A_CLASS
    return (
        has_util and trial.ok is not False,
        trial.is_training and has_util,
        trial.ok is not False,
        has_util,
        trial.order,
        trial.in_table,
        trial.samples_per_s or 0.0,
    )


def _judge(chosen: Trial, trials: Sequence[Trial], limits: Limits) -> Judgement:
    figures = chosen.figures()
    if chosen.ok is False:
        words = chosen.failure.value if chosen.failure else "failed"
        return replace(judge(replace(figures, util_pct=None), limits), why=f"every attempt failed: {words}")
    if chosen.stage in _NEVER_A_CLASS and chosen.util_pct is not None:
        why = f"only the {chosen.stage.value} stage is in these files, and a class is from training only"
        return replace(judge(replace(figures, util_pct=None), limits), why=why)
    return judge(figures, limits)


def _stage_note(chosen: Trial, judgement: Judgement) -> str:
    if judgement.case_class is CaseClass.UNCLASSIFIABLE or chosen.is_training:
        return ""
    if chosen.stage is Stage.PROBE:
        share = chosen.evaluation_share_frac
        if share is None:
            return "from a probe that contains evaluation; how much of it is not in these files"
        return f"from a probe; about {share:.0%} of its time is evaluation and warm-up"
    return "the stage is not in the file"


def _replaced(chosen: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """Rows of tables that an unsuspecting sum would count as cases of their own."""
    return [
        trial
        for trial in trials
        if trial is not chosen and trial.in_table and (trial.order < chosen.order or trial.ok is False)
    ]


def _method(name: str, trials: Sequence[Trial]) -> str | None:
    written = next((trial.row.method for trial in trials if trial.row and trial.row.method), None)
    from_args = any(trial.gpus and trial.stage is not Stage.UNKNOWN for trial in trials)
    return written or (method_by_name(name) if from_args else None)
