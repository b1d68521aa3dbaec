"""From the recorder's rows of sums to ticks: when each ended, how long it took, what it was spent on."""

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
            now = [row[1] * 1e6] + [value * 1e6 for value in row[TOTALS:]]
            if before is not None and row[0] != EDGE:
                spent = [b - a for a, b in zip(before, now)]
                line = _FORMAT % (now[0], spent[0], row[0], *spent[1:])
                ticks.append((now[0] / 1e6, spent[0] / 1e6, line))
            before = now
        self.before = before
        return ticks
