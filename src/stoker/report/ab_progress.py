"""One line while a comparison runs: pair, arm, the ratio so far, how long it has taken and may take."""

from __future__ import annotations

import math
from statistics import fmean

from stoker.report.figures import duration
from stoker.trials.ab.session import Progress
from stoker.trials.ab.statistics import FIRST_LOOK

_BETWEEN = " · "


def status_line(progress: Progress, columns: int | None = None) -> str:
    """What matters most comes first: parts that do not fit are left out whole."""
    line, *parts = _parts(progress)
    for part in parts:
        if columns is None or len(line) + len(_BETWEEN) + len(part) <= columns:
            line += _BETWEEN + part
    return line if columns is None else line[:columns]


def _parts(progress: Progress) -> list[str]:
    turn, found = progress.turn, progress.answer
    again = ", again" if turn.attempt > 1 else ""
    parts = [f"pair {turn.pair} of {progress.pairs}, {turn.arm}{again}"]
    if found.estimate is not None and found.estimate.pairs >= FIRST_LOOK:
        parts.append(
            f"B/A {found.estimate.ratio:.3f} ({found.estimate.low:.2f} to {found.estimate.high:.2f})"
        )
    elif found.pairs:
        ratio = math.exp(fmean(math.log(pair.ratio) for pair in found.pairs))
        parts.append(f"B/A {ratio:.3f}")
    if progress.left_s is not None:
        parts.append(f"about {duration(progress.left_s)} left")
    if progress.elapsed_s >= 1:
        parts.append(f"{duration(progress.elapsed_s)} done")
    return parts
