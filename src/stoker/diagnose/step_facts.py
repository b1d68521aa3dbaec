"""What rows of single steps say: the loader's share, the rhythm of the log, and whether a gate would pass."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from itertools import islice
from operator import sub

from stoker.model.evidence import StepLog

# The users' own gate before a window is taken: iter >= 120 and five logged data_time below 0.02 s in a row.
GATE_ITER = 120
GATE_ROWS = 5
GATE_DATA_S = 0.02
_SAMPLE_FOR_QUANTILES = 20_000
_LONGEST_PERIOD = 33
_FEWEST_CYCLES = 8
_START_UP_ROWS = 5


@dataclass(frozen=True, slots=True)
class StepFacts:
    rows: int
    first_line: int
    last_iter: int
    log_interval: int | None
    """Steps from one row to the next; None if there is one row."""
    data_known: bool
    data_mean_s: float | None
    data_max_s: float | None
    data_share_frac: float | None
    """Of all logged step time. Only of the logged steps: the others are not in the file."""
    step_mean_s: float
    step_p50_s: float
    step_max_s: float
    stage_s: dict[str, float]
    unattributed_s: float | None
    sample_s: float | None
    sample_parts_s: dict[str, float]
    gate_passed_at: int | None
    stall_period: int | None
    """Where every step is logged: the distance at which long waits come back."""
    stall_period_share_frac: float | None
    sparse_data_s: tuple[float, float] | None
    """Mean data_time in a log of every `stall_period`-th step: with the luckiest first row, and the worst."""
    data_share_after_gate_frac: float | None
    warnings: int


def facts_of(log: StepLog) -> StepFacts:
    rows = len(log.iters)
    known = _known(log.data_s)
    data_total, step_total = sum(known), sum(log.step_s)
    interval = _interval(log)
    period, share = stall_period(log.data_s) if interval == 1 and len(known) == rows else (None, None)
    stages = sum(log.stage_s.values())
    gate_row = _gate_row(log)
    return StepFacts(
        rows=rows,
        first_line=log.first_line,
        last_iter=log.iters[-1],
        log_interval=interval,
        data_known=bool(known),
        data_mean_s=data_total / len(known) if known else None,
        data_max_s=max(known, default=None),
        data_share_frac=data_total / step_total if len(known) == rows and step_total > 0 else None,
        step_mean_s=step_total / rows,
        step_p50_s=_median(log.step_s),
        step_max_s=max(log.step_s),
        stage_s=log.stage_s,
        unattributed_s=(step_total - data_total) / rows - stages if log.stage_s and known else None,
        sample_s=log.sample_s,
        sample_parts_s=log.sample_parts_s,
        gate_passed_at=None if gate_row is None else log.iters[gate_row],
        stall_period=period,
        stall_period_share_frac=share,
        sparse_data_s=_sparse_means(log.data_s, period) if period else None,
        data_share_after_gate_frac=_share_after(log, gate_row),
        warnings=log.warnings,
    )


def _known(values: array[float]) -> array[float]:
    if sum(values) == sum(values):
        return values
    return array("d", (value for value in values if value == value))


def _interval(log: StepLog) -> int | None:
    """The most frequent distance of the first rows; epochs restart the count, so only steps forward count."""
    gaps = [gap for gap in map(sub, islice(log.iters, 1, 2001), log.iters) if gap > 0]
    return max(set(gaps), key=gaps.count) if gaps else None


def _median(values: array[float]) -> float:
    drawn = values
    if len(values) > _SAMPLE_FOR_QUANTILES:  # sorting a million floats costs more than reading them
        drawn = array("d", random.Random(1).sample(values, _SAMPLE_FOR_QUANTILES))
    ordered = sorted(drawn)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _gate_row(log: StepLog) -> int | None:
    quiet = 0
    for row, (iteration, data) in enumerate(zip(log.iters, log.data_s, strict=True)):
        quiet = quiet + 1 if data < GATE_DATA_S else 0
        if quiet >= GATE_ROWS and iteration >= GATE_ITER:
            return row
    return None


def _share_after(log: StepLog, row: int | None) -> float | None:
    if row is None or len(log.iters) - row <= GATE_ROWS:
        return None
    data, steps = sum(log.data_s[row + 1 :]), sum(log.step_s[row + 1 :])
    return data / steps if steps > 0 and data == data else None


def _sparse_means(data_s: array[float], period: int) -> tuple[float, float]:
    logged = [data_s[_START_UP_ROWS + first :: period] for first in range(period)]
    means = [sum(rows) / len(rows) for rows in logged]
    return min(means), max(means)


def stall_period(data_s: array[float]) -> tuple[int | None, float | None]:
    """The period whose best phase holds the largest part of the waiting, beyond what chance would give.

    A starved loader hands out batches in turn, so waits come back every `num_workers` steps. The first steps
    are left out: there the workers start, and everybody waits.
    """
    rows = data_s[_START_UP_ROWS:]
    total = sum(rows)
    best: tuple[float, int, float] | None = None
    for period in range(2, _LONGEST_PERIOD):
        if len(rows) < period * _FEWEST_CYCLES or total <= 0:
            break
        share = max(sum(rows[phase::period]) for phase in range(period)) / total
        gain = share - 1 / period
        if best is None or gain > best[0] + 0.02:  # a multiple of the period is no better than the period
            best = (gain, period, share)
    if best is None or best[0] < 0.35:
        return None, None
    return best[1], best[2]
