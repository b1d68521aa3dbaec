"""Active and idle seconds that do not cover the window, or a mean that does not follow from its parts."""

from __future__ import annotations

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.trial import Trial
from stoker.model.evidence import WindowSummary

_GAP_SHARE = 0.02
_IDLE_AT_MOST_PCT = 0.5


def look(board: Board) -> list[Observation]:
    found = []
    for trial in board.trials:
        if trial.noted and (words := _noted(trial.noted)):
            found.append(Observation("window-gaps", (trial.case,), f"{trial.case}: {words}", _VERDICT))
        elif words := _sampled(trial):
            verdict = "nothing is known about that time; it is neither active nor idle"
            found.append(Observation("window-gaps", (trial.case,), f"{trial.case}: {words}", verdict))
    return found


_VERDICT = "the definitions do not partition the time; take the window again with samples kept"


def _noted(window: WindowSummary) -> str:
    if window.window_s is None or window.active_s is None or window.idle_s is None:
        return ""
    covered = window.active_s + window.idle_s
    if abs(window.window_s - covered) <= window.window_s * _GAP_SHARE:
        return ""
    words = f"active {window.active_s:g} + idle {window.idle_s:g} = {covered:g} of {window.window_s:g} s"
    return words + _mean_words(window)


def _mean_words(window: WindowSummary) -> str:
    if (
        window.both_avg_active_pct is None
        or window.both_avg_pct is None
        or not window.window_s
        or not window.active_s
    ):
        return ""
    implied = window.both_avg_active_pct * window.active_s / window.window_s
    if abs(implied - window.both_avg_pct) <= _IDLE_AT_MOST_PCT / 2:
        return ""
    part = f"{window.both_avg_active_pct:g} % over the active part"
    return f", and {part} gives {implied:.2f} %, not {window.both_avg_pct:g} %"


def _sampled(trial: Trial) -> str:
    for gpu in trial.gpus:
        if gpu.not_covered_s and gpu.active_s is not None and gpu.idle_s is not None:
            covered = gpu.active_s + gpu.idle_s + (gpu.unknown_s or 0)
            share = gpu.not_covered_s / (covered + gpu.not_covered_s)
            if share > _GAP_SHARE:
                return f"{gpu.not_covered_s:.0f} s ({share:.0%}) between first and last sample have no sample"
    return ""
