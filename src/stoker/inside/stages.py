"""Which stage the training is in: told from the events of the recorder, whose part this is.

A base class without slots of its own: what two objects would have to ask of each other costs nothing so, and
the hot path (`recorder.py`) has no call to spare. Nothing here runs more often than a stage can change, but
for `may_be_eval`: once in a model's call without gradients.
"""

from . import wire
from .originals import perf_counter

SETTLE_S = 30.0
EDGE = -1
"""In place of the optimizer, in a row that only says where the next tick begins."""


class Snapshot:
    """All sums at one moment, so that any two give the exact content of the time between."""

    __slots__ = ("time", "totals", "ticks", "samples", "env_steps", "backwards")

    def __init__(self, time, totals, ticks, samples, env_steps, backwards):
        self.time = time
        self.totals = totals
        self.ticks = ticks
        self.samples = samples
        self.env_steps = env_steps
        self.backwards = backwards


class Stages:
    __slots__ = ()

    def may_be_eval(self, graph):
        """Gradients are no evaluation; a call without them, in eval mode, may be the first of one."""
        if self.stage is not wire.EVAL:
            if self.eval_candidate is None:
                last, ended = self.last_tick(), self.ended
                self.eval_candidate = ended if ended is not None and ended.time > last.time else last
        elif not graph:
            self.eval_edge = None
        elif not self.eval_named:
            self._end_eval()

    def batches_ended(self):
        """The training's, whose workers were taken down: up to here it is no evaluation."""
        self.replay()
        self.ended = self.snapshot()

    def _begin_eval(self, since):
        self.eval_candidate = self.eval_edge = None
        if len(self.marks) >= wire.MARKS_MAX:  # stages that change this often are none
            return
        self.stage = wire.EVAL
        self.thinning.whole = True  # its time is no share of the stretch it stands in
        self.marks.append((wire.EVAL, since))

    def _end_eval(self):
        """Training resumes where the next training batch was asked for; the next tick starts there too."""
        edge = self.eval_edge or self.snapshot()
        self.eval_edge = None
        self.stage = self.usual
        self.marks.append((self.usual, edge))
        if self.tick_end is not None:
            self.tick_end, self.tick_totals = edge.time, edge.totals
            self.tick_counts = (edge.ticks, edge.samples, edge.env_steps, edge.backwards)
            self.tick_rows.append((EDGE, edge.time, edge.totals))

    def edge_at_tick(self):
        """The tick that just ended is not counted; the next one begins here."""
        self.tick_rows.append((EDGE, self.tick_end, self.tick_totals))

    def settled_until(self):
        """Up to here stages are known: an evaluation, or the end, is known for one only afterwards."""
        return max(self.tick_end or 0.0, perf_counter() - SETTLE_S)

    def stage_at(self, when):
        for stage, snapshot in reversed(self.marks):
            if snapshot.time <= when:
                return stage
        return wire.STARTUP

    def training_ended(self):
        """Called once, at the very end: what came after the last tick is no training."""
        self.replay()
        self.thinning.settle(last=True)
        if self.stage is self.usual and self.tick_end is not None:
            self.marks.append((wire.AFTER, self.last_tick()))

    def named_eval_begins(self):
        self.thinning.look_closely()
        self.eval_named += 1
        if self.eval_named == 1 and self.stage is not wire.EVAL:
            self._begin_eval(self.snapshot())

    def named_eval_ends(self):
        self.eval_named = max(0, self.eval_named - 1)
        if self.eval_named == 0 and self.stage is wire.EVAL:
            self._end_eval()
