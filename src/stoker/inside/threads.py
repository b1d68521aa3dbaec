"""What other threads that run Python take of the CPU, and in which line: while one of them computes in Python
itself, the training thread waits for the interpreter. Asked once a second by the pulse.
"""

import sys
import threading
from itertools import chain, starmap, tee
from time import clock_gettime

from .collecting import at_once
from .pulse import stack_of

try:
    from time import pthread_getcpuclockid
except ImportError:  # not on this system
    pthread_getcpuclockid = None

NOTICED_S = 0.02
"""Of CPU since the last look: with less, a thread is at rest."""
THREADS_MAX = 256
WANTS_CORES = 0.1
"""A thread that uses as much and is found computing in Python wants the interpreter whenever it has not got
it. One that computes in C, and one that waits, hardly ever are (hashlib 0 of 50 looks, json.loads 2 to 8, a
loop in Python 49: Python 3.11 to 3.13, 2026-11)."""
KEPT = 0.7
"""Of what earlier looks say, at each one: two in a row tell; after four, one that misses changes nothing."""


class OtherThreads:
    name = "threads"

    def __init__(self, places):
        self.places = places
        self.before = {}
        self.spent = {}
        self.at_work = {}
        self.wanting = 0.0  # near 1 where one of them wants the interpreter all the time
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
            self.wanting = 0.0

    def _look(self, now, ours):
        before, self.before = self.before, dict(_cpu_times())
        passed_s = 0.0 if self.last is None else now - self.last
        self.looked_s += passed_s
        self.last = now
        computing = False
        self.at_work = {thread: place for thread, place in self.at_work.items() if thread in self.before}
        for thread, cpu_s in list(self.before.items())[:THREADS_MAX]:
            spent_s = cpu_s - before.get(thread, cpu_s)
            if spent_s >= NOTICED_S and thread not in ours:
                stack = stack_of(thread)
                rests = self.places.rests(stack)
                place = self._place(thread, stack, rests)
                self.spent[place] = self.spent.get(place, 0.0) + spent_s
                if spent_s >= WANTS_CORES * passed_s and stack and not rests:
                    computing = computing or self.places.computes(stack)
        self.wanting = KEPT * self.wanting + (1 - KEPT) * computing

    def _place(self, thread, stack, rests):
        """Where it computes. Found at rest by now, it has done so where it was last found at work."""
        place = self.places.with_callers(stack)
        if not rests:
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
