"""The GPU's lead, taken now and then by the training thread; a fault in it is nobody's trouble."""

import functools

from ..lead import LeadClock
from .base import Hook


class LeadHook(Hook):
    """The capture of a CUDA graph is watched: no event may be recorded or asked meanwhile, by any thread."""

    name = "lead"
    modules = ("torch.cuda",)

    def __init__(self, agent):
        super().__init__(agent)
        self.cuda = self.clock = None
        self.capturing = 0

    def install(self, module):
        self.cuda = module
        self._watch_captures(getattr(module, "CUDAGraph", None))
        self._arm()

    def _arm(self):
        self.clock = LeadClock(self.recorder, self.cuda, lambda: self.capturing > 0)
        self.recorder.at_lead = self.at_tick

    def _watch_captures(self, kind):
        for name, change in (("capture_begin", 1), ("capture_end", -1)):
            original = getattr(kind, name, None)
            if original is not None:
                self.patch(kind, name, self._counted(original, change))

    def _counted(self, original, change):
        @functools.wraps(original)
        def call(*args, **kwargs):
            if change > 0:
                self.capturing += 1
            try:
                return original(*args, **kwargs)
            finally:
                if change < 0:
                    self.capturing = max(0, self.capturing - 1)

        return call

    def at_tick(self):
        try:
            if self.tripwire is not None:
                self.tripwire()
            self.clock.at_tick()
        except Exception as error:
            self.fail(error, "call")

    def fail(self, error, when):
        super().fail(error, when)
        self.recorder.at_lead = None
        if self.clock is not None:
            self.clock.abandon()

    def forked(self):
        self.capturing = 0
        if self.clock is not None:
            self.clock.leave_behind()
        if self.cuda is not None and self.error is None:
            self._arm()

    def row(self):
        return self.clock.row() if self.clock is not None else None
