"""From the recorder's rows of sums to ticks: when each ended, how long it took, what it was spent on."""

from operator import sub

from . import wire
from .recorder import EDGE, TOTALS

TICK_HEADER = "\t".join(wire.TICK_COLUMNS) + "\n"
_FORMAT = "%d\t%d\t%d" + "\t%d" * len(wire.PHASES) + "\n"


class Ticks:
    def __init__(self):
        self.before = None

    def take(self, rows):
        """A list of (end, duration, line of text). A row marked EDGE only says where the next one begins."""
        ticks, before = [], self.before
        for row in rows:
            if before is not None and row[0] != EDGE:
                spent = list(map(sub, row, before))
                in_us = [seconds * 1e6 for seconds in spent[TOTALS:]]
                line = _FORMAT % (row[1] * 1e6, spent[1] * 1e6, row[0], *in_us)
                ticks.append((row[1], spent[1], line))
            before = row
        self.before = before
        return ticks
