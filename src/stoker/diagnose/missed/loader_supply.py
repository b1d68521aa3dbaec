"""The loader cannot deliver what the step asks for, although the logged data_time looks fine.

Supply: `workers` samples are made at a time, each takes `sample_s`, a batch needs `batch` of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.step_facts import GATE_DATA_S
from stoker.diagnose.trial import Trial

_SHORT_OF_DEMAND = 1.1


@dataclass(frozen=True, slots=True)
class Supply:
    batch_s: float
    """Seconds the workers need for one batch."""
    step_s: float
    """Seconds the step takes, as logged, without its wait."""
    data_s: float
    gate_passed: bool

    @property
    def fed_frac(self) -> float:
        return min(1.0, self.step_s / self.batch_s)


def is_short(trial: Trial) -> bool:
    supply = supply_of(trial)
    return supply is not None and supply.batch_s > supply.step_s * _SHORT_OF_DEMAND


def look(board: Board) -> list[Observation]:
    found = []
    for trial in board.trials:
        supply = supply_of(trial)
        if supply and is_short(trial):
            found.append(Observation("loader-supply", (trial.case,), _words(trial, supply), _verdict(supply)))
    return found


def supply_of(trial: Trial) -> Supply | None:
    workers, batch = trial.known.get("workers"), trial.known.get("batch")
    measured = _measured(trial)
    if not workers or not batch or measured is None:
        return None
    sample_s, step_s, data_s, gate = measured
    return Supply(sample_s * batch / workers, max(step_s - data_s, 0.0), data_s, gate)


def _measured(trial: Trial) -> tuple[float, float, float, bool] | None:
    for facts in trial.steps:
        if facts.sample_s and facts.data_mean_s is not None:
            return facts.sample_s, facts.step_mean_s, facts.data_mean_s, facts.gate_passed_at is not None
    noted = trial.noted
    if noted and noted.sample_s and noted.step_mean_s and noted.data_mean_s is not None:
        gate = (noted.last_iter or 0) >= 120 and (noted.data_max_s or 0) < GATE_DATA_S
        return noted.sample_s, noted.step_mean_s, noted.data_mean_s, gate
    return None


def _words(trial: Trial, supply: Supply) -> str:
    measured = _measured(trial)
    assert measured is not None
    batch, workers = trial.known["batch"], trial.known["workers"]
    return (
        f"{trial.case}: the loader needs {supply.batch_s:.2f} s per batch "
        f"({batch:g} samples x {measured[0]:.2f} s / {workers:g} workers), "
        f"the logged step takes {supply.step_s:.2f} s: the GPU can be fed {supply.fed_frac:.0%} of the time"
    )


def _verdict(supply: Supply) -> str:
    if supply.gate_passed and supply.data_s < GATE_DATA_S:
        return "your gate passed while the loader starves; make samples cheaper or add cores"
    return "the loader starves; make samples cheaper or add cores"
