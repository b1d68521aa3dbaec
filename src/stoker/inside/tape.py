"""The training thread's phases as exact edges, for a short while: a deep window, or an iteration or two of
which the GPU's lead is taken.

Else this costs nothing: for that while the recorder is made an instance of a subclass with the same slots,
whose `phase` notes every change. So whatever code sets the phase is heard, inlined or not.
"""

from .lead_account import with_loss
from .originals import perf_counter
from .recorder import Recorder

EDGES_MAX = 400_000
_PHASE = Recorder.__dict__["phase"]

_running = None


class Tape:
    """`at_edge(now)` is called at every edge once `deadline` is over: a hook was called, but no tick came."""

    def __init__(self, recorder, deadline, at_edge):
        self.recorder = recorder
        self.deadline = deadline
        self.at_edge = at_edge
        self.edges = []
        self.told_later = []

    def start(self):
        global _running
        if _running is not None:
            _running.stop()
        _running = self
        self.changed(self.recorder.phase)
        self.recorder.__class__ = _Taped

    def stop(self):
        global _running
        if self.running():
            self.changed(self.recorder.phase)
            _running = None
            self.recorder.__class__ = Recorder

    def running(self):
        return _running is self

    def changed(self, phase):
        now = perf_counter()
        if len(self.edges) < EDGES_MAX:
            self.edges.append((now, phase))
        if now > self.deadline:
            self.at_edge()

    def told(self, start, end, phase):
        """What ran between turned out to have been `phase`."""
        if len(self.told_later) < EDGES_MAX:
            self.told_later.append((start, end, phase))

    def spans(self):
        """(start, end, phase), in order and without a hole."""
        whole = [(start, end, phase) for (start, phase), (end, _) in zip(self.edges, self.edges[1:])]
        return _overlaid(_with_loss(whole), self.told_later)


def forget(recorder):
    """In the child of a fork: whatever ran in its parent does not run here, and its GPU is out of reach."""
    global _running
    _running = None
    recorder.__class__ = Recorder


class _Taped(Recorder):
    __slots__ = ()

    @property
    def phase(self):
        return _PHASE.__get__(self)

    @phase.setter
    def phase(self, value):
        _PHASE.__set__(self, value)
        if _running is not None:
            _running.changed(value)

    def attribute(self, phase, start, end=None):
        length = Recorder.attribute(self, phase, start, end)
        if _running is not None:
            now = perf_counter() if end is None else end
            _running.told(now - length, now, phase)
        return length


def _with_loss(spans):
    told = with_loss([(start, phase, end) for start, end, phase in spans])
    return [(start, end, phase) for start, phase, end in told]


def _overlaid(spans, over):
    """`over` cut into `spans`; both in order, those of `over` do not overlap each other."""
    result, index = [], 0
    for start, end, phase in spans:
        while index < len(over) and over[index][0] < end:
            inner_start, inner_end, inner_phase = over[index]
            inner_start = max(start, inner_start)
            if inner_start > start:
                result.append((start, inner_start, phase))
            if min(inner_end, end) > inner_start:
                result.append((inner_start, min(inner_end, end), inner_phase))
            start = max(start, min(inner_end, end))
            if inner_end > end:
                break
            index += 1
        if end > start:
            result.append((start, end, phase))
    return result
