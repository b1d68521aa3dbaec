"""Which source lines the time went to.

Phases are timed exactly, lines are sampled: a line's share is the exact share of its phase, split by the
samples that fell into that phase.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass

from stoker.model.record import PHASES, Line, Place, ProcessRecord, Sums

MIN_SAMPLES = 5
"""Fewer looks into a phase say nothing about its lines."""


@dataclass(frozen=True, slots=True)
class LineShare:
    phase: str
    place: Place
    pct: float
    samples: int
    exact: bool = False
    count: int | None = None


def line_shares(record: ProcessRecord, window: Sums) -> list[LineShare]:
    """Lines of the train stage, costliest first. Device waits and copies carry their exact time."""
    shares = _sampled(record, window) + _measured(record, window)
    return sorted(shares, key=lambda share: -share.pct)


def _sampled(record: ProcessRecord, window: Sums) -> list[LineShare]:
    counts: dict[tuple[str, Place], int] = defaultdict(int)
    per_phase: dict[str, int] = defaultdict(int)
    stage = "train" if any(sample.stage == "train" for sample in record.sampled) else "startup"
    for sample in record.sampled:
        if sample.stage == stage:
            counts[sample.phase, sample.place] += sample.count
            per_phase[sample.phase] += sample.count
    measured = {blocking.phase for blocking in record.blocking}
    return [
        LineShare(phase, place, pct(window, phase) * count / per_phase[phase], count)
        for (phase, place), count in counts.items()
        if phase not in measured and per_phase[phase] >= MIN_SAMPLES
    ]


def _measured(record: ProcessRecord, window: Sums) -> list[LineShare]:
    """Their sums run over the whole life of the process: scaled to the window by their phase."""
    life: dict[str, float] = defaultdict(float)
    for blocking in record.blocking:
        life[blocking.phase] += blocking.total_s
    return [
        LineShare(b.phase, b.place, pct(window, b.phase) * b.total_s / life[b.phase], b.count, True, b.count)
        for b in record.blocking
        if life[b.phase]
    ]


def pct(window: Sums, phase: str) -> float:
    return 100.0 * window.phase_s[PHASES.index(phase)] / window.t_s if window.t_s > 0 else 0.0


def shown(place: Place, cwd: str = "") -> str:
    """`buffers.py:120 sample`, and for a library's line also the user's that led there."""
    leaf, user = place.leaf, place.user
    if leaf is None:
        return "outside Python code"
    text = _short(leaf, cwd)
    if user is not None and user != leaf:
        text += f" < {_short(user, cwd)}"
    return text


def _short(line: Line, cwd: str) -> str:
    path, number, function = line
    name = function.rsplit(".<locals>.", 1)[-1]
    return f"{_short_path(path, cwd)}:{number} {name}"


def _short_path(path: str, cwd: str) -> str:
    for marker in (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"):
        if marker in path:
            return path.rsplit(marker, 1)[1]
    if cwd and path.startswith(cwd + os.sep):
        return path[len(cwd) + 1 :]
    return os.path.basename(path)
