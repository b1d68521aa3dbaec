"""The clock, the flags and the doses of these scripts: those of `fifth/`, found from here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from fifth.stopwatch import Meter
from third.stopwatch import blanks

__all__ = ["Meter", "amount_taking", "blanks"]


def amount_taking(meter, work, few, many, wanted_s, calls=20):
    """How much of it lasts so long; `work` of an amount is to be called, and lasts in proportion to it."""
    few_s, many_s = (meter.timed_s(work(amount), calls=calls) for amount in (few, many))
    return max(few, round(few + (wanted_s - few_s) * (many - few) / (many_s - few_s)))
