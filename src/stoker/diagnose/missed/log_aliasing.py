"""The log's interval shares a factor with the number of workers, so every row sees the same few of them.

A starved DataLoader hands out batches in turn and waits once in `workers` steps; a row every k*workers steps
meets always the same moment of that turn.
"""

from __future__ import annotations

from math import gcd

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.labels import listed
from stoker.diagnose.trial import Trial


def look(board: Board) -> list[Observation]:
    groups: dict[tuple[int, int], list[str]] = {}
    for trial in board.trials:
        interval, workers = _interval(trial), int(trial.known.get("workers", 0))
        if interval and interval > 1 and workers > 1 and gcd(interval, workers) > 1:
            groups.setdefault((interval, workers), []).append(trial.case)
    return [
        Observation(
            "log-aliasing", tuple(names), f"{listed(names)}: {_words(interval, workers)}", _verdict(workers)
        )
        for (interval, workers), names in groups.items()
    ]


def _interval(trial: Trial) -> int | None:
    for facts in trial.steps:
        if facts.log_interval:
            return facts.log_interval
    given = trial.known.get("log_interval")
    if given:
        return int(given)
    noted = trial.noted
    if noted and noted.rows and noted.last_iter and noted.rows > 1 and noted.last_iter % noted.rows == 0:
        return noted.last_iter // noted.rows
    return None


def _words(interval: int, workers: int) -> str:
    seen = workers // gcd(interval, workers)
    phases = "one and the same worker" if seen == 1 else f"only {seen} of {workers} workers"
    return f"a row every {interval} steps with {workers} workers always meets {phases}"


def _verdict(workers: int) -> str:
    other = next(number for number in range(workers + 1, 4 * workers) if gcd(number, workers) == 1)
    return f"its data_time proves nothing; log every step, or every {other}"
