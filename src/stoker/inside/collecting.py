"""No collection begins in the thread that looks, or the script's finalizers would run there.

What they touch may be of the thread that made it (sqlite3 refuses, a Tcl interpreter aborts), and signals
are blocked there. Nothing tells the collector which threads it may run in, and its switch, `gc.disable`, is
one that scripts ask about. So the thresholds are out of reach while this thread runs Python, some tenths of a
millisecond at a time, and as the script wants them while it rests or writes. To rest, and to put them there
and back, is one call into C (`at_once`): in Python 3.12 a collection that another thread asked for is
begun by the next line of Python, whoever's it is.

A script may read the thresholds meanwhile and put back later what it read, or change one of them. So what is
out of reach is a number that stands for what the script had: each component of it is known again.
"""

import gc
import sys
from itertools import chain, islice, starmap, tee

BASE = 2_000_000_000
"""No script would choose a threshold as large; what is beyond it says which of `known`."""
KNOWN_MAX = 1000
STEPS_MAX = 100  # before a look
_ONCE_IF = ((), ((),))


class NoCollections:
    """Of one thread."""

    def __init__(self):
        self.known = []
        self.usual = None
        self.raised = None
        self.found = []
        self.results = []
        self._have(gc.get_threshold())

    def calling(self, function, *args):
        """What it returns, called with the script's thresholds: it may be long."""
        at_once((), self.resting(function, *args))
        result = self.results[-1]
        self.rested()
        return result

    def resting(self, wait, *args):
        """To be gone through in one call into C: `wait(*args)` with the script's thresholds."""
        self.rested()
        current = gc.get_threshold()
        given_back = {current: self._meant(current)}
        self.raised = ours = self._standing_for_usual()
        read = map(self.found.append, starmap(gc.get_threshold, ((),)))
        return chain(
            starmap(gc.set_threshold, filter(None, map(given_back.get, starmap(gc.get_threshold, ((),))))),
            map(self.results.append, starmap(wait, (args,))),
            _without_beginning_one(read, starmap(gc.set_threshold, (ours,))),
        )

    def rested(self):
        """What is out of reach stands for what the script had last; it may have chosen anew at rest."""
        for thresholds in self.found:
            self._have(self._meant(thresholds))
        ours = self._standing_for_usual()
        if self.raised not in (None, ours) and gc.get_threshold() == self.raised:
            gc.set_threshold(*ours)
            self.raised = ours
        del self.found[:], self.results[:]

    def _standing_for_usual(self):
        return (BASE + self.known.index(self.usual),) * 3

    def _have(self, thresholds):
        self.usual = thresholds
        if thresholds not in self.known:
            del self.known[KNOWN_MAX - 1 :]
            self.known.append(thresholds)

    def _meant(self, thresholds):
        numbered = [number - BASE for number in thresholds]
        return tuple(
            self.known[number][place] if 0 <= number < len(self.known) else number + BASE
            for place, number in enumerate(numbered)
        )

    def end(self):
        """This thread looks no more; or it is gone, in the child of a fork."""
        self.rested()
        current = gc.get_threshold()
        meant = self._meant(current)
        if meant != current:
            gc.set_threshold(*meant)


def _without_beginning_one(*steps):
    """To read the thresholds makes an object, which before Python 3.12 may begin a collection: the switch is
    off for these steps, of which nobody sees anything."""
    if sys.version_info >= (3, 12):
        return chain(*steps)
    enabled, again = tee(starmap(gc.isenabled, ((),)))
    on_again = starmap(gc.enable, chain.from_iterable(map(_ONCE_IF.__getitem__, again)))
    return chain(enabled, starmap(gc.disable, ((),)), *steps, on_again)


def at_once(steps, before=()):
    """All of it within one call into C, where the interpreter lock is let go of only by what is `before`, a
    nap, of which nothing is told: who waits for the lock asks for it back after the same short interval, and
    would have it at the next line of Python. (Of looks into a sort of 70 ms a quarter found the line after
    it, 2026-11-19.) Before Python 3.12 it takes more: making an object may start a collection, which runs
    Python code, which may let another thread go on: it leaves the very frame an object is made for, or ends
    while its clock is asked for. (Seen: crashes where much is allocated, as in torch.compile.) So none starts
    in between; later versions start none inside a call.
    """
    dropped = islice(before, STEPS_MAX, STEPS_MAX)
    if sys.version_info >= (3, 12):
        return list(chain(dropped, steps))
    found, again = tee(starmap(gc.get_threshold, ((),)))
    restored = starmap(gc.set_threshold, again)
    told = chain(dropped, found, starmap(gc.set_threshold, ((0,),)), steps, restored)
    try:
        return list(told)[2:-1]
    except Exception:
        next(restored, None)
        raise
