"""Cases of one method and setting whose GPU does the same work per sample, while the waiting differs.

Busy time per sample is utilisation divided by samples per second; the rest of the time per sample is idle.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.cases import Case
from stoker.diagnose.trial import Trial

_SAME_WORK = 1.4
_OTHER_WAIT = 1.5
_FEWEST_CASES = 2


def busy_and_idle_ms(trial: Trial) -> tuple[float, float] | None:
    """Milliseconds of the least busy GPU per 1000 samples."""
    if trial.util_pct is None or not trial.samples_per_s:
        return None
    whole_ms = 1e6 / trial.samples_per_s
    busy_ms = whole_ms * trial.util_pct / 100
    return busy_ms, whole_ms - busy_ms


def look(board: Board) -> list[Observation]:
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in board.cases:
        known = case.chosen.ok is not False and case.chosen.setting.num_envs and busy_and_idle_ms(case.chosen)
        if case.method and known:
            groups.setdefault((case.method, case.chosen.setting.label()), []).append(case)
    found = [
        _words(method, setting, group)
        for (method, setting), group in groups.items()
        if len(group) >= _FEWEST_CASES
    ]
    said = [words for words in found if words]
    if not said:
        return []
    verdict = "the slow cases do not compute more, they wait more; look at the simulation and the host, not the learner"
    names = tuple(case.name for group in groups.values() for case in group)
    return [Observation("idle-per-sample", names, "; ".join(said), verdict)]


def _words(method: str, setting: str, group: Sequence[Case]) -> str:
    times = [(*parts, case.name) for case in group if (parts := busy_and_idle_ms(case.chosen))]
    busy, idle = [part[0] for part in times], [part[1] for part in times]
    if max(busy) > _SAME_WORK * min(busy) or max(idle) < _OTHER_WAIT * min(idle):
        return ""
    fast, slow = min(times, key=lambda part: part[1]), max(times, key=lambda part: part[1])
    return (
        f"{method} {setting}: the GPU is busy {min(busy):.0f}-{max(busy):.0f} ms per 1000 samples in all {len(group)} "
        f"cases and idle {fast[1]:.0f} ({fast[2]}) to {slow[1]:.0f} ms ({slow[2]})"
    )
