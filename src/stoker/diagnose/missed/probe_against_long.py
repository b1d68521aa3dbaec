"""A probe and a long run of one case give different classes: the probe's class does not hold."""

from __future__ import annotations

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.cases import Case
from stoker.diagnose.classes import judge
from stoker.diagnose.trial import Trial
from stoker.model.evidence import Stage


def look(board: Board) -> list[Observation]:
    return [
        Observation(
            "probe-against-long",
            (case.name,),
            _words(case, probe),
            "believe the long run; the probe mixes in evaluation",
        )
        for case in board.cases
        if case.chosen.is_training and (probe := _differing_probe(case))
    ]


def _differing_probe(case: Case) -> Trial | None:
    for trial in case.trials:
        is_probe = trial.stage is Stage.PROBE and trial.util_pct is not None and trial.ok is not False
        if is_probe and judge(trial.figures()).case_class is not case.case_class:
            return trial
    return None


def _words(case: Case, probe: Trial) -> str:
    return (
        f"{case.name}: the probe says {probe.util_pct:.1f} % ({judge(probe.figures()).case_class.value}), "
        f"the {case.chosen.stage.value} run {case.chosen.util_pct:.1f} % ({case.case_class.value})"
    )
