"""The answer of `stoker classify` for programs: JSON with a schema, and a table of tab-separated cases."""

from __future__ import annotations

from collections import Counter

from stoker.diagnose.analysis import Analysis
from stoker.diagnose.cases import Case
from stoker.diagnose.checklist import checklist_of
from stoker.diagnose.policy import Goal, actions_of
from stoker.diagnose.targets import TargetAnswer
from stoker.diagnose.trial import Trial

SCHEMA = "stoker.classify/1"
Data = dict[str, object]

TSV_COLUMNS = (
    "case",
    "method",
    "class",
    "memory_known",
    "near_limit",
    "stage",
    "variant",
    "num_envs",
    "util_pct",
    "peak_mem_mib",
    "samples_per_s",
    "machine",
    "job",
    "stable",
    "why",
)


def as_data(analysis: Analysis) -> Data:
    return {
        "schema": SCHEMA,
        "classes": dict(Counter(case.case_class.value for case in analysis.cases)),
        "limits": {name: getattr(analysis.limits, name) for name in analysis.limits.__dataclass_fields__},
        "cases": [_case(case, analysis) for case in analysis.cases],
        "methods": [_fields(row) for row in analysis.methods],
        "failures": [_fields(record) for record in analysis.failures],
        "symptoms": [_fields(symptom) for symptom in analysis.symptoms],
        "targets": [_target(answer) for answer in analysis.targets],
        "repeats": [
            {**_fields(rerun), "spread_ratio": rerun.ratio, "reproducible": rerun.reproducible}
            for rerun in analysis.reruns
        ],
        "observations": [_fields(observation) for observation in analysis.observations],
        "loops": [_fields(profile) for profile in analysis.board.profiles],
        "cannot_say": list(analysis.unsaid),
        "files": [
            {
                "path": str(reading.path),
                "format": reading.format,
                "bad_lines": reading.bad_count,
                "first_bad_lines": [_fields(bad) for bad in reading.bad_lines],
                "notes": list(reading.notes),
            }
            for reading in analysis.files
        ],
    }


def _target(answer: TargetAnswer) -> Data:
    return {
        "case": answer.case,
        "target": answer.target.name.value,
        "value": answer.target.value,
        "met": answer.met,
        "figure": answer.figure,
        "why_unknown": answer.why_unknown,
    }


def _fields(item: object) -> Data:
    names: dict[str, object] = item.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: getattr(item, name) for name in names}


def _case(case: Case, analysis: Analysis) -> Data:
    judgement = case.judgement
    return {
        "case": case.name,
        "method": case.method,
        "class": case.case_class.value,
        "why": judgement.why,
        "memory_known": judgement.memory_known,
        "near_limit_pct": judgement.near_limit_pct,
        "stage_note": case.stage_note,
        "actions": {goal.value: text for goal, text in actions_of(case).items()},
        "chosen": _trial(case.chosen),
        "replaced": [_trial(trial) for trial in case.replaced],
        "trials": [_trial(trial) for trial in case.trials],
        "checklist": [_fields(answer) for answer in checklist_of(case, analysis.cases)],
    }


def _trial(trial: Trial) -> Data:
    return {
        "root": str(trial.root),
        "stage": trial.stage.value,
        "variant": trial.setting.variant,
        "num_envs": trial.setting.num_envs,
        "ok": trial.ok,
        "status": trial.row.status if trial.row else None,
        "failure": trial.failure.value if trial.failure else None,
        "util_pct": trial.util_pct,
        "util_per_gpu_pct": list(trial.util_per_gpu_pct),
        "peak_mem_mib": trial.peak_mem_mib,
        "mem_per_gpu_mib": list(trial.mem_per_gpu_mib),
        "mem_total_mib": trial.mem_total_mib,
        "samples_per_s": trial.samples_per_s,
        "evaluation_share_frac": trial.evaluation_share_frac,
        "gpus": [_fields(gpu) for gpu in trial.gpus],
        "window": _fields(trial.window) if trial.window else None,
        "noted_window": _fields(trial.noted) if trial.noted else None,
        "steps": [_fields(facts) for facts in trial.steps],
        "known_settings": trial.known,
        "sources": [str(source) for source in trial.sources],
    }


def as_tsv(analysis: Analysis) -> str:
    lines = ["\t".join(TSV_COLUMNS)]
    lines += ["\t".join(_cell(value) for value in _tsv_row(case)) for case in analysis.cases]
    return "\n".join(lines) + "\n"


def _tsv_row(case: Case) -> tuple[object, ...]:
    chosen, actions = case.chosen, actions_of(case)
    return (
        case.name,
        case.method,
        case.case_class.value,
        int(case.judgement.memory_known),
        int(case.judgement.near_limit_pct is not None),
        chosen.stage.value,
        chosen.setting.variant,
        chosen.setting.num_envs,
        chosen.util_pct,
        chosen.peak_mem_mib,
        chosen.samples_per_s,
        *(actions[goal] for goal in Goal),
        case.judgement.why,
    )


def _cell(value: object) -> str:
    """A tab or a newline out of somebody's file must not make a column or a row."""
    if value is None:
        return ""
    shown = f"{value:g}" if isinstance(value, float) and value == int(value) else str(value)
    return " ".join(shown.split())
