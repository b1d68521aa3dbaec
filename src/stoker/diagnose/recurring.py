"""What is known to come back in a training, and after how many ticks: a rollout, an epoch, an evaluation."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pstdev

from stoker.diagnose.iteration import Iteration
from stoker.model.record import ProcessRecord

REGULAR = 0.1
"""Evaluations whose distances vary less than this have a period."""


def known_periods(record: ProcessRecord, iteration: Iteration | None) -> tuple[float, ...]:
    found = [_rollout(iteration), *_epochs(record), _evaluation(record)]
    return tuple(sorted({period for period in found if period is not None and period > 1}))


def _rollout(iteration: Iteration | None) -> float | None:
    """Env calls and several updates take turns: the tick after the env calls is the long one."""
    if iteration is None or not iteration.env_calls:
        return None
    return max(iteration.optimizer_steps.values(), default=None)


def _epochs(record: ProcessRecord) -> list[float]:
    """Accumulation takes several batches for one tick, some algorithms make several ticks of one batch."""
    ticks = record.last.ticks if record.last else 0
    return [
        loader.length * ticks / loader.batches
        for loader in record.loaders
        if loader.length and loader.batches and loader.epochs
    ]


def _evaluation(record: ProcessRecord) -> float | None:
    at = [mark.sums.ticks for mark in record.marks if mark.stage == "eval"]
    gaps = [b - a for a, b in pairwise(at) if b > a]
    if len(gaps) < 2 or pstdev(gaps) > REGULAR * fmean(gaps):
        return None
    return fmean(gaps)
