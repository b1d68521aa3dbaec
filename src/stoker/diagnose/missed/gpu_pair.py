"""GPUs of one symmetric job that differ by about 2x: other tenants, or one rank that waits for the other."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.trial import Trial

_MEMORY_RATIO = 1.75
_MEMORY_GAP_MIB = 1024.0
_UTIL_RATIO = 2.0
_UTIL_GAP_PCT = 10.0


def look(board: Board) -> list[Observation]:
    found = []
    for trial in board.trials:
        if trial.ok is False:
            continue
        if _differs(trial.mem_per_gpu_mib, _MEMORY_RATIO, _MEMORY_GAP_MIB):
            found.append(_memory(trial))
        if _differs(trial.util_per_gpu_pct, _UTIL_RATIO, _UTIL_GAP_PCT):
            found.append(_utilisation(trial))
    return found


def _differs(figures: Sequence[float | None], ratio: float, gap: float) -> bool:
    known = [figure for figure in figures if figure is not None]
    return len(known) > 1 and max(known) - min(known) >= gap and max(known) >= ratio * min(known)


def _shown(figures: Sequence[float | None], form: str) -> str:
    return " / ".join("?" if figure is None else format(figure, form) for figure in figures)


def _memory(trial: Trial) -> Observation:
    return Observation(
        "gpu-pair-memory",
        (trial.case,),
        f"{trial.case}: peak memory {_shown(trial.mem_per_gpu_mib, '.0f')} MiB on the GPUs of one job",
        "the readings are of the whole card; another process or a lopsided rank is in them",
    )


def _utilisation(trial: Trial) -> Observation:
    return Observation(
        "gpu-pair-utilisation",
        (trial.case,),
        f"{trial.case}: utilisation {_shown(trial.util_per_gpu_pct, '.1f')} % on the GPUs of one job",
        "a rank that waits in NCCL spins and reads as busy; judge by the lower one, find the late rank",
    )
