"""`gc`: Python's garbage collector announces itself.

No code of Python's may run inside a collection: a signal that came meanwhile would be handled there, and what
its handler raises, a Ctrl-C too, the collector throws away. So what it calls is C all through, and notes the
time and the thread; the training thread reads these notes before its phase changes.
"""

import gc
from collections import deque
from functools import partial

from ..originals import get_ident as _get_ident
from ..originals import perf_counter
from ..wire import GC
from .base import Hook

NOTED_MAX = 2_000  # even: a start and an end; of a stretch without hooks the latest are kept


class _Notes(map):
    """The collector calls with "start" or "stop" and more: so does `getattr`, which takes the next note."""

    __slots__ = ()
    start = stop = property(next)


def _noting(notes):
    moments = zip(iter(perf_counter, None), iter(_get_ident, None))
    return partial(getattr, _Notes(notes.append, moments))


class GcHook(Hook):
    """What a collection took is known when it is over; the phase it fell into goes on as if nothing was."""

    name = "gc"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.notes = deque(maxlen=NOTED_MAX)
        self.noting = _noting(self.notes)

    def forked(self):
        self.notes.clear()
        self._offer()

    def install(self, module):
        gc.callbacks.append(self.noting)
        self._offer()

    def _offer(self):
        if self.noting in gc.callbacks:
            self.recorder.collected, self.recorder.read_collected = self.notes, self.read

    def take_off(self):
        self.recorder.collected = ()
        if self.noting in gc.callbacks:
            gc.callbacks.remove(self.noting)

    def begin(self, args):
        return None

    def read(self):
        """Called by the training thread, in the phase the collections fell into."""
        notes, recorder = self.notes, self.recorder
        if recorder.replaying:
            return
        try:
            while len(notes) > 1:
                (start, thread), (end, _) = notes.popleft(), notes.popleft()
                if thread == recorder.owner:
                    self.begin(())
                    recorder.attribute(GC, start, end)
        except Exception as error:
            self.fail(error, "call")
