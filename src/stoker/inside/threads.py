"""What other threads that run Python take of the CPU, and in which line: while one of them computes in Python
itself, the training thread waits for the interpreter. Asked once a second by the pulse.
"""

import sys
import threading
from itertools import chain, starmap, tee
from time import clock_gettime

from .pulse import at_once, stack_of

try:
    from time import pthread_getcpuclockid
except ImportError:  # not on this system
    pthread_getcpuclockid = None

NOTICED_S = 0.02
"""Of CPU since the last look: with less, a thread is at rest."""
THREADS_MAX = 256


class OtherThreads:
    name = "threads"

    def __init__(self, places):
        self.places = places
        self.before = {}
        self.spent = {}
        self.at_work = {}
        self.looked_s = 0.0
        self.last = None
        self.error = self.failed_at = None

    def look(self, now, ours):
        """`ours`: the training thread and the pulse. Whatever goes wrong ends this for good, and nothing
        else."""
        if self.error is not None or pthread_getcpuclockid is None or not _has_lock():
            return
        try:
            self._look(now, ours)
        except Exception as error:
            self.error, self.failed_at = repr(error)[:500], "running"

    def _look(self, now, ours):
        before, self.before = self.before, dict(_cpu_times())
        if self.last is not None:
            self.looked_s += now - self.last
        self.last = now
        self.at_work = {thread: place for thread, place in self.at_work.items() if thread in self.before}
        for thread, cpu_s in list(self.before.items())[:THREADS_MAX]:
            spent_s = cpu_s - before.get(thread, cpu_s)
            if spent_s >= NOTICED_S and thread not in ours:
                place = self._place(thread, stack_of(thread))
                self.spent[place] = self.spent.get(place, 0.0) + spent_s

    def _place(self, thread, stack):
        """Where it computes. Found at rest by now, it has done so where it was last found at work."""
        place = self.places.with_callers(stack)
        if not self.places.rests(stack):
            self.at_work[thread] = place
        return self.at_work.get(thread, place)

    def row(self, owner):
        """Cumulative; None while there is nothing to tell."""
        if not self.spent:
            return None
        spent = [[place, round(seconds, 3)] for place, seconds in list(self.spent.items())]
        is_first = owner == threading.main_thread().ident
        return {"looked_s": round(self.looked_s, 3), "spent": spent, "trains_first": is_first}


def _has_lock():
    """A Python built without the interpreter lock has none to wait for."""
    return not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled()


def _cpu_times():
    """(thread, seconds on a core) of those that run Python now. The clock of a thread that has ended must not
    be asked for; none ends meanwhile, since that takes the interpreter lock."""
    threads, again = tee(chain.from_iterable(starmap(sys._current_frames, ((),))))
    return at_once(zip(threads, map(clock_gettime, map(pthread_getcpuclockid, again))))
