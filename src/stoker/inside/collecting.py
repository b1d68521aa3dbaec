"""No collection begins in the thread that looks, or the script's finalizers would run there.

What they touch may be of the thread that made it (sqlite3 refuses, a Tcl interpreter aborts), and signals
are blocked there. Nothing tells the collector which threads it may run in, and its switch, `gc.disable`, is
one that scripts ask about. So the thresholds are out of reach while this thread runs Python, some tenths of a
millisecond at a time, and as the script wants them while it rests. To rest, and to put them there and back,
is one call into C (`pulse.at_once`): from Python 3.12 on a collection that is due is begun by the next line
of Python, whoever's it is.
"""

import gc
from itertools import chain, starmap, tee

OUT_OF_REACH = (2_000_000_011,) * 3
"""No script would choose these."""
_ONCE_IF = ((), ((),))


class NoCollections:
    """Of one thread."""

    def __init__(self):
        self.usual = None
        self.found = []

    def resting(self, wait, *args):
        """To be gone through in one call into C: `wait(*args)` with the script's thresholds. To read them
        makes an object, which before Python 3.12 may begin a collection: off for these few steps."""
        self._note()
        enabled, again = tee(starmap(gc.isenabled, ((),)))
        return chain(
            starmap(gc.set_threshold, (self.usual,) if self._ours() else ()),
            starmap(wait, (args,)),
            enabled,
            starmap(gc.disable, ((),)),
            map(self.found.append, starmap(gc.get_threshold, ((),))),
            starmap(gc.set_threshold, (OUT_OF_REACH,)),
            starmap(gc.enable, chain.from_iterable(map(_ONCE_IF.__getitem__, again))),
        )

    def _note(self):
        """What the script had last. (Ours, if it puts back what it read while they were there.)"""
        found, self.found = self.found, []
        self.usual = next((one for one in found if one[0] != OUT_OF_REACH[0]), self.usual)

    def _ours(self):
        return self.usual is not None and gc.get_threshold()[0] == OUT_OF_REACH[0]

    def end(self):
        """This thread looks no more; or it is gone, in the child of a fork."""
        self._note()
        if self._ours():
            gc.set_threshold(*self.usual)
