"""The clock and the flags of these scripts: those of `second/`, found from here the way `third/` does."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from third.stopwatch import Meter, blanks

__all__ = ["Meter", "blanks"]
