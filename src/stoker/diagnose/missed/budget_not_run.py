"""A status of ok where the time budget was not run."""

from __future__ import annotations

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.trial import Trial
from stoker.model.evidence import TimeBudget

_RUN_SHARE = 0.95


def look(board: Board) -> list[Observation]:
    found = []
    for trial in board.trials:
        budget = trial.row.budget if trial.row else None
        if not trial.ok or budget is None or not budget.target_s or budget.elapsed_s is None:
            continue
        if budget.elapsed_s < budget.target_s * _RUN_SHARE:
            words = (
                f"marked ok after {budget.elapsed_s:.0f} of {budget.target_s:.0f} s{_ending(trial, budget)}"
            )
            name = f"{trial.case} {trial.setting.label()}"
            found.append(Observation("budget-not-run", (trial.case,), f"{name}: {words}", _verdict(budget)))
    return found


def _ending(trial: Trial, budget: TimeBudget) -> str:
    code = f", exit code {budget.exit_code}" if budget.exit_code else ""
    death = f" ({trial.failures[0].kind})" if trial.failures else ""
    return code + death


def _verdict(budget: TimeBudget) -> str:
    if budget.claimed_reached:
        return "the long run was not done; a flag of an earlier pass says that it was. Run it again"
    return "the long run was not done. Run it again"
