"""A gate that passes, and a loader that starves afterwards: quiet rows in a row do not mean a quiet run."""

from __future__ import annotations

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.step_facts import GATE_DATA_S, GATE_ITER, GATE_ROWS

_WORTH_SAYING_SHARE = 0.10


def look(board: Board) -> list[Observation]:
    gate = f"iter >= {GATE_ITER} and {GATE_ROWS} rows of data_time < {GATE_DATA_S} s"
    return [
        Observation(
            "gate-too-kind",
            (trial.case,),
            f"{trial.case}: the gate ({gate}) passes at iter {facts.gate_passed_at}, and "
            f"{facts.data_share_after_gate_frac:.0%} of the step time after it is waiting for data",
            "a window taken at that gate is not of a steady run; use the share of all rows as the gate",
        )
        for trial in board.trials
        for facts in trial.steps
        if (facts.data_share_after_gate_frac or 0) >= _WORTH_SAYING_SHARE
    ]
