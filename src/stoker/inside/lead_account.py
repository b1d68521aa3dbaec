"""From the edges of a few iterations to the time the GPU stood idle in each phase. Pure arithmetic.

An edge is (host time, phase that begins, mark). A mark says when the GPU had done all it was given before the
edge: a moment (from an event), `DRAINED` or `PENDING` (from asking the stream), or None where nobody asked.

In a stretch in which nothing was issued the GPU works off what it has and is idle from then on. Whether
something was issued the marks tell: with events, the GPU is done later than it would have been; by asking
(`drained`, per edge), it is still at work though it had nothing to do before. Where something was issued
while the GPU waits for each piece (its lead is next to nothing) some of that time is idle too; how much, the
counters tell: `near_s`.
"""

from .wire import BACKWARD, COMPILE, DATA, FORWARD, GC, H2D, INFER, LOSS, OPTIM, OTHER, SAVE, SYNC

DRAINED, PENDING = "drained", "pending"

NEAR_S = 0.0002
"""Below it the GPU is as good as waiting for the host."""
ISSUED_S = 0.00003
"""An event alone keeps the GPU for some microseconds; later than this and there was work before it."""
BLOCKED_S = 0.00006
"""Reading a number from a GPU that has nothing to do takes 15 to 40 microseconds; longer was waiting."""
SEEN_MIN = 3
ENOUGH = 20
SLOW_S = 0.0003
"""Python launches a kernel in a few hundredths of a millisecond. Where so much lies between one and the next,
the GPU waits for what the host does there, not for the launch."""
_ISSUING = (INFER, FORWARD, LOSS, BACKWARD, OPTIM)
_CALLS = (INFER, FORWARD)
"""A part of the model that lies on the CPU gives the GPU nothing, though it is called like any other."""
_WAITED_FOR = (DATA, H2D, SAVE, GC, COMPILE)
"""What they give to the GPU, if anything, is copies: its kernels wait for them."""

HOST, IDLE, NEAR, UNKNOWN = range(4)


class Account:
    """Sums per phase over all iterations looked at: host, idle, near and unknown seconds."""

    def __init__(self, phases):
        self.rows = [[0.0, 0.0, 0.0, 0.0] for _ in range(phases)]
        self.seen = [0] * phases
        self.by_memory = False
        self.looked = [0] * phases
        self.issued = [0] * phases
        self.given = [0] * phases
        self.given_s = [0.0] * phases

    def add(self, edges, drained, allocations):
        edges = _carried(with_loss(edges))
        self._learn(edges, drained, allocations)
        for (start, phase, mark), (end, _, next_mark) in zip(edges, edges[1:]):
            row = self.rows[phase]
            row[HOST] += end - start
            kind, seconds = self._judge(phase, start, mark, end, next_mark)
            if kind != HOST:
                row[kind] += seconds

    def _learn(self, edges, drained, allocations):
        """The GPU may be done already with what was issued; memory that was given out for it still tells."""
        for index, (start, phase, _) in enumerate(edges[:-1]):
            before, after = drained[index : index + 2]
            given, later = allocations[index : index + 2]
            pending = before and after is not None and not after
            if given is not None and later is not None:
                self.by_memory = True
                self.looked[phase] += 1
                self._saw(phase, pending or later != given)
                self.given[phase] += later - given
                self.given_s[phase] += edges[index + 1][0] - start
            elif pending or before and after and not self.by_memory:
                self._saw(phase, pending)

    def _saw(self, phase, issued):
        self.seen[phase] += 1
        self.issued[phase] += bool(issued)

    def known(self, phase):
        """Whether it issues work need not be asked any more."""
        if phase in _CALLS:
            return self.looked[phase] >= ENOUGH
        return phase in _ISSUING or phase == SYNC or self.seen[phase] >= ENOUGH

    def _judge(self, phase, start, mark, end, next_mark):
        length = end - start
        if phase == SYNC:
            return HOST, 0.0  # the host waits for the GPU, which is at work
        if isinstance(mark, float):
            return self._judge_by_events(phase, start, mark, end, next_mark)
        if mark == PENDING:
            return (HOST, 0.0) if next_mark == PENDING else (UNKNOWN, length)
        if mark is None:
            return UNKNOWN, length
        if self._issues(phase):
            return NEAR, length
        return IDLE, length

    def _issues(self, phase):
        """Kernel after kernel; one now and then, between other things, does not count."""
        if phase in _ISSUING:
            return not self._computes_elsewhere(phase)
        return self.issued[phase] * SEEN_MIN > self.seen[phase] and not self._waited_for(phase)

    def _computes_elsewhere(self, phase):
        """In no look was memory of the GPU given out, which its operations need, nor work left pending."""
        return phase in _CALLS and self.looked[phase] >= SEEN_MIN and not self.issued[phase]

    def _waited_for(self, phase):
        given = self.given[phase]
        return phase in _WAITED_FOR or given > 0 and self.given_s[phase] > SLOW_S * given

    def _judge_by_events(self, phase, start, done, end, next_done):
        idle_s = max(0.0, end - max(start, done))
        if next_done is None:
            return UNKNOWN, end - start
        if phase not in _ISSUING and self._waited_for(phase):
            return IDLE, idle_s
        if next_done > max(done, end) + (NEAR_S if self._quiet(phase) else ISSUED_S) or self._issues(phase):
            return (NEAR, idle_s) if next_done - end < NEAR_S else (HOST, 0.0)
        return IDLE, idle_s

    def _quiet(self, phase):
        """Known to issue nothing: a GPU that was idle for long takes its time over the event alone."""
        return self.seen[phase] >= SEEN_MIN and not self._issues(phase)


def _carried(edges):
    """Where nobody asked, what was known before still holds unless the phase between issues work."""
    told, known, phase_before = [], None, None
    for start, phase, mark in edges:
        if mark is None and phase_before not in _ISSUING:
            mark = known
        told.append((start, phase, mark))
        known, phase_before = mark, phase
    return told


def with_loss(edges):
    """What lies between a model's call and `backward` is the loss; it is known only afterwards."""
    told, graph = list(edges), False
    for index, (start, phase, mark) in enumerate(edges[:-1]):
        if phase == FORWARD:
            graph = True
        elif phase == OTHER and graph and edges[index + 1][1] in (FORWARD, INFER, BACKWARD):
            told[index] = (start, LOSS, mark)
        elif phase not in (INFER, OTHER):
            graph = False
    return told


def place(events):
    """(offset, doubt) of the GPU's clock on the host's, from (recorded, elapsed, not yet, done) per event.

    An event is done after it was recorded, after the host last found it pending, and before it found it done.
    Of a GPU that was idle at any of them, the first bound is exact.
    """
    low = max(max(recorded, pending) - elapsed for recorded, elapsed, pending, _ in events)
    high = min(done - elapsed for _, elapsed, _, done in events)
    if high < low:
        return low, 0.0
    return low, high - low
