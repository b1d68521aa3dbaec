"""The clock and the flags of these scripts: those of `second/`, found from here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from second.meter import Meter

__all__ = ["Meter"]
