"""The clock, the flags and the doses of these scripts: those of `fifth/`, found from here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from fifth.stopwatch import Meter
from thirteenth.stopwatch import amount_taking

__all__ = ["Meter", "amount_taking"]
