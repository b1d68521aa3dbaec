"""Console of the off-policy trainer: one block per episode, and a progress bar where it runs distributed."""

from __future__ import annotations

import re

from stoker.ingest.source import Ledger, Reading, Source
from stoker.model.evidence import EpisodeLog

_EPISODE = re.compile(r"^\[Episode (\d{1,9})\] total_reward: ")
_LOSS = re.compile(r"^\s*a_loss \S+ c_loss \S+")
_BAR = re.compile(r"Training:\s+\d+%\|.*?\| (\d+)/(\d+) \[.*?, +([\d.]+)(s/it|it/s)")


def recognise(source: Source) -> bool:
    return any(_EPISODE.match(line) for line in source.head.split("\n"))


def read(source: Source) -> Reading:
    ledger = Ledger()
    episodes, updates, pace = 0, False, None
    for line, text in source.lines():
        if _EPISODE.match(text):
            episodes += 1
        elif text.startswith("[Episode"):
            ledger.add(line, "an episode line that cannot be read", text)
        elif "a_loss" in text:
            updates = updates or bool(_LOSS.match(text))
        elif "Training:" in text:
            pace = _pace(text) or pace
    return Reading((EpisodeLog(episodes, pace, updates),), ledger)


def _pace(text: str) -> float | None:
    """Seconds per episode, from the last bar on the line."""
    bars = _BAR.findall(text)
    if not bars:
        return None
    try:
        value = float(bars[-1][2])
    except ValueError:
        return None
    if value <= 0:
        return None
    return value if bars[-1][3] == "s/it" else 1 / value
