"""The clock, the flags and the doses of these scripts: those of `fifth/`, found from here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from fifth.stopwatch import Meter
from third.stopwatch import blanks

__all__ = ["Meter", "blanks"]
