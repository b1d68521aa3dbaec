"""Two runs of one configuration that disagree: neither can be ranked against anything."""

from __future__ import annotations

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.reruns import Rerun, reruns_of


def look(board: Board) -> list[Observation]:
    return [
        Observation(
            "repeats-disagree",
            (rerun.configuration,),
            _words(rerun),
            "do not rank; single runs say nothing here",
        )
        for rerun in reruns_of(board.trials, board.profiles)
        if not rerun.reproducible
    ]


def _words(rerun: Rerun) -> str:
    shown = " against ".join(f"{figure:.1f}" for figure in sorted(rerun.figures, reverse=True))
    spread = f", a spread of x{rerun.ratio:.1f}" if rerun.ratio else ""
    return f"{rerun.configuration}: {rerun.metric} {shown} in runs of one configuration{spread}"
