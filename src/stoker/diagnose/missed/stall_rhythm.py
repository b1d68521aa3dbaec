"""Every step is logged and the waits come back in a rhythm: what a sparser log would have hidden."""

from __future__ import annotations

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.step_facts import StepFacts
from stoker.diagnose.trial import Trial

_WORTH_SAYING_SHARE = 0.10


def look(board: Board) -> list[Observation]:
    return [
        Observation("stall-rhythm", (trial.case,), _words(trial, facts), _verdict(trial, facts))
        for trial in board.trials
        for facts in trial.steps
        if facts.stall_period and (facts.data_share_frac or 0) >= _WORTH_SAYING_SHARE
    ]


def _words(trial: Trial, facts: StepFacts) -> str:
    return (
        f"{trial.case}: {facts.data_share_frac:.0%} of the step time is waiting for data, and "
        f"{facts.stall_period_share_frac:.0%} of the waiting falls on one step in {facts.stall_period}"
    )


def _verdict(trial: Trial, facts: StepFacts) -> str:
    period = facts.stall_period
    known = trial.known.get("workers") == period
    whose = f"your {period} workers starve" if known else f"it looks like {period} starved workers"
    if facts.sparse_data_s is None:
        return whose
    low, high = facts.sparse_data_s
    return f"{whose}; a log of every {period}th step shows {low:.3f} to {high:.2f} s, as its first row falls"
