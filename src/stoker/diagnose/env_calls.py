"""How many environments one call of `step` steps."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from stoker.diagnose.window import spans
from stoker.model.record import ProcessRecord


def envs_per_call(record: ProcessRecord) -> float | None:
    """An evaluation has environments of its own, often one alone: where there are any, the seconds without
    them tell. None where no environment is stepped."""
    last = record.seconds[-1] if record.seconds else None
    if last is None or not last.env_calls or not last.sums.env_steps:
        return None
    steps, calls = _outside_evaluations(record)
    return steps / calls if steps and calls else last.sums.env_steps / last.env_calls


def _outside_evaluations(record: ProcessRecord) -> tuple[int, int]:
    apart = [(span.start.t_s, span.end.t_s) for span in spans(record) if span.stage == "eval"]
    if not apart:
        return 0, 0
    ends = [end_s for _, end_s in apart]
    steps = calls = 0
    for before, row in pairwise(record.seconds):
        after = bisect_right(ends, before.sums.t_s)
        if after == len(apart) or apart[after][0] >= row.sums.t_s:
            steps += row.sums.env_steps - before.sums.env_steps
            calls += row.env_calls - before.env_calls
    return steps, calls
