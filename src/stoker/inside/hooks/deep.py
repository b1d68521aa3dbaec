"""The deep window, where one is wanted (STOKER_DEEP): sees to it that it is nobody's trouble.

Not in the list of hooks: it goes in only where STOKER_DEEP says so. What it patches is called a few times in
the life of a training: the script's own profilers, and the capture of CUDA graphs.
"""

import functools
import os
import sys
import weakref

from ..deep import DeepWindow
from ..wire import DEEP
from .base import Hook


class DeepHook(Hook):
    name = "deep"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.mode = os.environ.get("STOKER_DEEP", "auto")
        self.profilers = weakref.WeakSet()
        self.captures = 0
        self.capturing = 0
        self.window = None
        self.row_taken = False

    def install(self, module):
        self._watch_profilers(module)
        self._watch_graphs(module)
        self._arm()

    def _arm(self):
        write = functools.partial(self.agent.writer.side_file, "deep")
        self.window = DeepWindow(self.recorder, self.mode, self, write, self.failed)
        self.row_taken = False
        if getattr(getattr(sys.modules["torch"], "version", None), "cuda", None) is None:
            self.window.refuse("this torch is built without CUDA")
        else:
            self.recorder.at_tick = self.at_tick

    def at_tick(self):
        try:
            if self.tripwire is not None:
                self.tripwire()
            return self.window.at_tick()
        except Exception as error:
            self.failed(error)
            return self.recorder.usual is DEEP

    def failed(self, error):
        """The training goes on; the stage, if it had begun, ends a few ticks later as it would have."""
        self.fail(error, "call")
        self.tripwire = None
        trouble = self.window.abandon()
        why = self.error if trouble is None else "%s; then stopping the profiler: %s" % (self.error, trouble)
        self.window.row = {"state": "failed", "mode": self.mode, "why": why}

    def forked(self):
        if self.window is not None:
            self.window.forked()
            if self.error is None:
                self._arm()

    def take_row(self, last):
        """What there is to tell of it, once; called by the pulse."""
        if self.window is None or self.row_taken:
            return None
        if last:
            self.window.end()
        self.row_taken = self.window.row is not None
        return self.window.row

    # -- what the script does itself -------------------------------------------------------------------

    def _watch_profilers(self, torch):
        """From the making of a torch.profiler to its end: with a schedule it may start at any step."""
        kind = getattr(getattr(torch, "profiler", None), "profile", None)
        if kind is None:
            return
        made, stopped, known = kind.__init__, kind.stop, self.profilers

        @functools.wraps(made)
        def __init__(profiler, *args, **kwargs):
            made(profiler, *args, **kwargs)
            try:
                known.add(profiler)
            except TypeError:
                return  # a class of the user's that cannot be kept in a set

        @functools.wraps(stopped)
        def stop(profiler, *args, **kwargs):
            known.discard(profiler)
            return stopped(profiler, *args, **kwargs)

        self.patch(kind, "__init__", __init__)
        self.patch(kind, "stop", stop)

    def _watch_graphs(self, torch):
        kind = getattr(torch.cuda, "CUDAGraph", None)
        begin, end = getattr(kind, "capture_begin", None), getattr(kind, "capture_end", None)
        if begin is None or end is None:
            return
        hook = self

        @functools.wraps(begin)
        def capture_begin(*args, **kwargs):
            hook.captures += 1
            hook.capturing += 1
            return begin(*args, **kwargs)

        @functools.wraps(end)
        def capture_end(*args, **kwargs):
            hook.capturing -= 1
            return end(*args, **kwargs)

        self.patch(kind, "capture_begin", capture_begin)
        self.patch(kind, "capture_end", capture_end)
