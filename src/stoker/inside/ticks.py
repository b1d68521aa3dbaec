"""From the recorder's rows to ticks: when each ended, how long it took, what it was spent on."""

from operator import sub

from . import wire
from .stages import EDGE

TICK_HEADER = "\t".join(wire.TICK_COLUMNS) + "\n"
_SHORT = "%d\t%d\t%d\n"
_FORMAT = "%d\t%d\t%d" + "\t%d" * len(wire.PHASES) + "\n"


class Ticks:
    def __init__(self):
        self.end = None
        self.totals = None

    def take(self, rows):
        """A list of (end, duration, line of text); rows: (optimizer, end, sums or None)."""
        ticks = []
        for optimizer, end, totals in rows:
            if self.end is not None and optimizer != EDGE:
                duration = end - self.end
                ticks.append((end, duration, self._line(optimizer, end, duration, totals)))
            self.end, self.totals = end, totals
        return ticks

    def _line(self, optimizer, end, duration, totals):
        """Without the phases where they were not told apart, here or in the tick before."""
        before = self.totals
        if totals is None or before is None or totals[wire.THIN] != before[wire.THIN]:
            return _SHORT % (end * 1e6, duration * 1e6, optimizer)
        in_us = [seconds * 1e6 for seconds in map(sub, totals[: wire.THIN], before[: wire.THIN])]
        return _FORMAT % (end * 1e6, duration * 1e6, optimizer, *in_us)
