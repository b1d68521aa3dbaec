"""The clock and the flags of these scripts: those of `second/`, with doses of their own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from third.stopwatch import Meter as EarlierMeter
from third.stopwatch import blanks

__all__ = ["Meter", "blanks"]

SHARES = (0.0, 0.18, 0.67, 1.5)
"""Injected, in healthy ticks: about 15, 40 and 60 % of the time."""
LONGEST_S = 10.0


class Meter(EarlierMeter):
    def __init__(self, doc):
        super().__init__(doc)
        self.share, self.seconds = SHARES[self.dose], min(self.seconds, LONGEST_S)
