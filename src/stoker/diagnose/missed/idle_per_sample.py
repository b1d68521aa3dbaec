"""Slow cases of one method and setting: do they compute more per sample, or wait more?

Busy time per sample is utilisation divided by samples per second; the rest of the time per sample is idle.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.cases import Case
from stoker.diagnose.trial import Trial

_SLOWER = 1.3
_MOSTLY_IDLE = 0.75


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
        if case.method and case.chosen.setting.num_envs and case.chosen.ok and busy_and_idle_ms(case.chosen):
            groups.setdefault((case.method, case.chosen.setting.label()), []).append(case)
    found = [words for group in groups.values() if (words := _words(group))]
    if not found:
        return []
    names = tuple(case.name for group in groups.values() for case in group)
    saw = "time per sample at one method and setting, slowest against fastest case: " + "; ".join(found)
    verdict = (
        "they wait more and hardly compute more: look at simulation and host (start-up is in these times)"
    )
    return [Observation("idle-per-sample", names, saw, verdict)]


def _words(group: Sequence[Case]) -> str:
    times = [(sum(parts), parts[1], case.name) for case in group if (parts := busy_and_idle_ms(case.chosen))]
    fast, slow = min(times), max(times)
    if slow[0] < _SLOWER * fast[0]:
        return ""
    idle_frac = (slow[1] - fast[1]) / (slow[0] - fast[0])
    if idle_frac < _MOSTLY_IDLE:
        return ""
    amount = "all" if idle_frac >= 1 else f"{idle_frac:.0%}"
    return f"{slow[2]} x{slow[0] / fast[0]:.2f} of {fast[2]}, {amount} of the difference idle GPU"
