"""`gc`: Python's garbage collector announces itself."""

import gc
import threading

from ..wire import GC
from .base import Hook

_get_ident = threading.get_ident


class GcHook(Hook):
    name = "gc"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.before = None

    def forked(self):
        self.before = None

    def install(self, module):
        gc.callbacks.append(self._called)

    def take_off(self):
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def begin(self, args):
        return self.recorder.enter(GC)

    def _called(self, when, _info):
        recorder = self.recorder
        if _get_ident() != recorder.owner:
            return
        try:
            if when == "start":
                self.before = self.begin(())
            elif self.before is not None:
                recorder.leave(self.before)
                self.before = None
        except Exception as error:
            self.fail(error, "call")
