"""`gc`: Python's garbage collector announces itself."""

import gc
import threading
from time import perf_counter

from ..wire import GC
from .base import Hook

_get_ident = threading.get_ident


class GcHook(Hook):
    """What a collection took is known when it is over; the phase it fell into goes on as if nothing was."""

    name = "gc"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.start = None

    def forked(self):
        self.start = None

    def install(self, module):
        gc.callbacks.append(self._called)

    def take_off(self):
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def begin(self, args):
        return perf_counter()

    def _called(self, when, _info):
        recorder = self.recorder
        if _get_ident() != recorder.owner:
            return
        try:
            if when == "start":
                self.start = self.begin(())
            elif self.start is not None:
                start, self.start = self.start, None
                recorder.attribute(GC, start)
        except Exception as error:
            self.fail(error, "call")
