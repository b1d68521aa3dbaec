"""A whole step in a CUDA graph: nothing in it runs in Python, so its replay is the step, and the tick."""

import functools
import weakref

from ..originals import get_ident
from ..wire import OPTIM
from .base import Hook


class GraphedStepHook(Hook):
    """A graph is one of these if an optimizer stepped while it was captured; all others are let through."""

    name = "graphed"
    modules = ("torch.cuda",)

    def __init__(self, agent):
        super().__init__(agent)
        self.capturing = {}  # graphs by id: the steps before
        self.graphs = {}

    def forked(self):
        self.capturing = {}

    def install(self, module):
        kind = getattr(module, "CUDAGraph", None)
        names = "capture_begin", "capture_end", "replay"
        begin, end, replay = (getattr(kind, name, None) for name in names)
        if begin is None or end is None or replay is None:
            return
        wrapped = self._begun(begin), self._ended(end), self._replayed(replay)
        for name, wrapper in zip(names, wrapped):
            self.patch(kind, name, wrapper)

    def _begun(self, original):
        @functools.wraps(original)
        def capture_begin(*args, **kwargs):
            if args:
                self.graphs.pop(id(args[0]), None)
                self.capturing[id(args[0])] = self._steps()
            return original(*args, **kwargs)

        return capture_begin

    def _ended(self, original):
        @functools.wraps(original)
        def capture_end(*args, **kwargs):
            result = original(*args, **kwargs)
            before = self.capturing.pop(id(args[0]), None) if args else None
            steps = self._steps()
            if None not in (before, steps) and steps != before:
                self._note(args[0])
            return result

        return capture_end

    def _steps(self):
        """None where another thread trains, or this hook is out of use."""
        if self.error is not None or get_ident() != self.recorder.owner:
            return None
        try:
            self.recorder.replay()
            return sum(self.recorder.steps)
        except Exception as error:
            self.fail(error, "call")
            return None

    def _note(self, graph):
        key, graphs = id(graph), self.graphs
        try:
            graphs[key] = weakref.ref(graph, lambda _: graphs.pop(key, None))
        except Exception as error:
            self.fail(error, "call")

    def _replayed(self, original):
        def replayed_step(*args, **kwargs):
            return original(*args, **kwargs)

        self.agent.known_as(replayed_step, OPTIM)
        stepped = self.agent.hook("optimizer").stepped
        step = self.wrap_phase(replayed_step, OPTIM, joins=self.recorder.take_over, ends=stepped)
        graphs = self.graphs

        @functools.wraps(original)
        def replay(*args, **kwargs):
            return (step if args and id(args[0]) in graphs else original)(*args, **kwargs)

        return replay
