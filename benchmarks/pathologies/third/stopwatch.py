"""The clock and the flags of these scripts: those of `second/`, found from here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from second.meter import Meter

__all__ = ["Meter", "blanks"]


def blanks(meter, *tensors):
    """A batch to time the healthy tick with, in the memory a good loader would give it in."""
    return [tensor.pin_memory() if meter.gpu else tensor for tensor in tensors]
