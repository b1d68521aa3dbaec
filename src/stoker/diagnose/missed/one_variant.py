"""Every case that passed ran one variant only: nothing in the files says that it is the better one."""

from __future__ import annotations

from stoker.diagnose.board import Board, Observation

_ENOUGH_CASES = 4


def look(board: Board) -> list[Observation]:
    passed = [case for case in board.cases if case.chosen.ok and case.chosen.setting.variant]
    variants = {case.chosen.setting.variant for case in passed}
    tried = {
        trial.setting.variant
        for case in passed
        for trial in case.trials
        if trial.ok and trial.setting.variant
    }
    failed = {trial.setting.variant for trial in board.trials if trial.ok is False and trial.setting.variant}
    others = sorted(variant for variant in failed - tried if variant)
    if len(passed) < _ENOUGH_CASES or len(variants) != 1 or tried != variants or not others:
        return []
    chosen = next(iter(variants))
    return [
        Observation(
            "one-variant",
            tuple(case.name for case in passed),
            f"all {len(passed)} cases that passed ran {chosen}; {', '.join(others)} is here only as failures",
            f"whether {chosen} is faster or only busier cannot be told; run one case both ways",
        )
    ]
