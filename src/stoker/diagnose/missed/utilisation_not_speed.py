"""Utilisation rises while throughput falls: a loss, however busy the GPU looks."""

from __future__ import annotations

from itertools import permutations

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.cases import Case
from stoker.diagnose.trial import Trial

_UTIL_UP = 1.1
_SPEED_DOWN = 0.9


def look(board: Board) -> list[Observation]:
    return [found for case in board.cases if (found := _worst(case))]


def _worst(case: Case) -> Observation | None:
    """One pair per case: what the bench chose before others, equal envs before others, the largest loss."""
    trials = [trial for trial in case.trials if trial.ok is not False and trial.util_pct and _speed(trial)]
    pairs = [
        (slow, fast)
        for slow, fast in permutations(trials, 2)
        if slow.root == fast.root and _is_loss(slow, fast)
    ]
    if not pairs:
        return None
    slow, fast = max(pairs, key=lambda pair: (_was_chosen(*pair), _same_envs(*pair), _factor(*pair)))
    return Observation("utilisation-not-speed", (case.name,), _words(case, slow, fast), _verdict(slow, fast))


def _is_loss(slow: Trial, fast: Trial) -> bool:
    busier = _util(slow) >= _util(fast) * _UTIL_UP
    return (busier or _was_chosen(slow, fast)) and _speed(slow) <= _speed(fast) * _SPEED_DOWN


def _was_chosen(slow: Trial, fast: Trial) -> bool:
    """The bench preferred it, whatever its utilisation."""
    return slow.in_table and not fast.in_table


def _same_envs(slow: Trial, fast: Trial) -> bool:
    return slow.setting.num_envs == fast.setting.num_envs


def _util(trial: Trial) -> float:
    return trial.util_pct or 0.0


def _speed(trial: Trial) -> float:
    return trial.own_samples_per_s or trial.samples_per_s or 0.0


def _factor(slow: Trial, fast: Trial) -> float:
    return _speed(fast) / _speed(slow)


def _words(case: Case, slow: Trial, fast: Trial) -> str:
    ratio = _util(slow) / _util(fast)
    return (
        f"{case.name}: from {fast.setting.label()} to {slow.setting.label()} utilisation goes "
        f"x{ratio:.2f} ({_util(fast):.1f} to {_util(slow):.1f} %) and samples/s "
        f"/{_factor(slow, fast):.1f} ({_speed(fast):.0f} to {_speed(slow):.0f})"
    )


def _verdict(slow: Trial, fast: Trial) -> str:
    chosen = ", and it is the setting the bench chose" if _was_chosen(slow, fast) else ""
    return f"a loss{chosen}. A heavier agent does other updates, too: another training, not a faster one"
