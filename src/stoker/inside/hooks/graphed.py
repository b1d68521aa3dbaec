"""A whole step in a CUDA graph: nothing in it runs in Python, so its replay is the step, and the tick."""

import functools
import threading
import weakref

from ..wire import OPTIM
from .base import Hook


class GraphedStepHook(Hook):
    """A graph is one of these if an optimizer stepped while it was captured; all others are let through."""

    name = "graphed"
    modules = ("torch.cuda",)

    def __init__(self, agent):
        super().__init__(agent)
        self.steps_before = None
        self.graphs = {}

    def forked(self):
        self.steps_before = None

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
            self.steps_before = self._steps()
            return original(*args, **kwargs)

        return capture_begin

    def _ended(self, original):
        @functools.wraps(original)
        def capture_end(graph, *args, **kwargs):
            result = original(graph, *args, **kwargs)
            before, self.steps_before = self.steps_before, None
            steps = self._steps()
            if None not in (before, steps) and steps != before:
                self._note(graph)
            return result

        return capture_end

    def _steps(self):
        """None where another thread trains, or this hook is out of use."""
        if self.error is not None or threading.get_ident() != self.recorder.owner:
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
        def replayed_step(graph):
            return original(graph)

        self.agent.known_as(replayed_step, OPTIM)
        stepped = self.agent.hook("optimizer").stepped
        step = self.wrap_phase(replayed_step, OPTIM, joins=self.recorder.take_over, ends=stepped)
        graphs = self.graphs

        @functools.wraps(original)
        def replay(graph):
            return step(graph) if id(graph) in graphs else original(graph)

        return replay
