"""Where the training thread is, and since when: the hot path of the agent.

One recorder per process, one owner thread. Hooks call `enter` and `leave`; every moment between belongs to
exactly one phase. All sums are cumulative; the pulse thread reads them once a second. Nothing here writes.
"""

import os
import threading
import time
import weakref
from time import perf_counter

from . import wire
from .wire import BACKWARD, COMPILE, DATA, FORWARD, INFER, LOSS, OPTIM, OTHER

_get_ident = threading.get_ident

# Steps of other optimizers after which the one that ticked counts as done.
STOPPED_AFTER = 500

# Inside these a module's call is part of what already runs: a layer of the model, a recomputed block.
TRANSPARENT = tuple(phase in (FORWARD, INFER, BACKWARD, COMPILE) for phase in range(len(wire.PHASES)))

# What may follow a model's call for the time between to count as the loss: more of the same, zero_grad or
# backward.
_CLOSES_LOSS = tuple(phase in (FORWARD, INFER, BACKWARD, OPTIM) for phase in range(len(wire.PHASES)))


def _nobody():
    return None


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


class Recorder:
    __slots__ = (
        "owner",
        "phase",
        "since",
        "origin",
        "totals",
        "counts",
        "after_model",
        "loose_s",
        "acting_s",
        "pending_infer_s",
        "samples",
        "env_steps",
        "env_calls",
        "backwards",
        "optimizers",
        "steps",
        "tick_optimizer",
        "tick_alive",
        "others_since_tick",
        "ticks",
        "ticks_dropped",
        "last_tick",
        "tick_rows",
        "sequence",
        "stage",
        "usual",
        "marks",
        "eval_candidate",
        "eval_edge",
        "eval_named",
        "range_totals",
        "batch_rows",
        "want_shape",
        "on_start",
        "started",
    )

    def __init__(self, on_start):
        self.on_start = on_start
        self.reset()

    def reset(self):
        """A new process (first start, or the child of a fork) begins from nothing."""
        self.owner = None
        self.phase = OTHER
        self.since = self.origin = perf_counter()
        self.totals = [0.0] * len(wire.PHASES)
        self.counts = [0] * len(wire.PHASES)
        self.after_model = False
        self.loose_s = 0.0
        self.acting_s = 0.0
        self.pending_infer_s = 0.0
        self.samples = 0
        self.env_steps = 0
        self.env_calls = 0
        self.backwards = 0
        self.optimizers = {}
        self.steps = []
        self.tick_optimizer = 0
        self.tick_alive = _nobody
        self.others_since_tick = 0
        self.ticks = 0
        self.ticks_dropped = 0
        self.last_tick = None
        self.tick_rows = []
        self.sequence = []
        self.stage = self.usual = wire.STARTUP
        self.marks = []
        self.eval_candidate = None
        self.eval_edge = None
        self.eval_named = 0
        self.range_totals = {}
        self.batch_rows = None
        self.want_shape = True
        self.started = False

    # -- whose time it is ------------------------------------------------------------------------------

    def adopt(self):
        """May the calling thread record? The first to come does; others are passed through."""
        if self.owner is None:
            self.owner = _get_ident()
            self._count_from_now()
            if not self.started:
                self.started = True
                self.on_start()
            return True
        return False

    def take_over(self):
        """The thread that steps an optimizer is the training thread, if nobody else ever did. (One of
        autograd's own threads may step, too, while the training thread waits in backward.)"""
        if self.owner is None or self.steps or self.phase == BACKWARD:
            return self.adopt()
        self.owner = _get_ident()
        self.phase = OTHER
        self._count_from_now()
        return True

    def _count_from_now(self):
        self.since = perf_counter()
        self.origin = self.since - sum(self.totals)

    # -- phases ----------------------------------------------------------------------------------------

    def enter(self, phase):
        """Begin a phase; returns what `leave` needs to go back."""
        now = perf_counter()
        before = gap = self.phase
        if self.after_model:
            self.after_model = False
            if _CLOSES_LOSS[phase]:
                gap = LOSS
                self.totals[before] -= self.loose_s
                self.totals[LOSS] += self.loose_s
        elif before == OPTIM and _CLOSES_LOSS[phase]:
            gap = OTHER  # a closure given to step(): the user's code, not the optimizer's
        self.totals[gap] += now - self.since
        self.counts[phase] += 1
        self.since = now
        self.phase = phase
        return before

    def leave(self, before):
        now = perf_counter()
        self.totals[self.phase] += now - self.since
        self.since = now
        self.phase = before

    def attribute(self, phase, start):
        """What ran since `start` turns out to have been `phase`; returns its length."""
        now = perf_counter()
        if start < self.since:
            start = self.since
        if self.after_model:
            self.loose_s += start - self.since  # the loss, or not: the next phase tells
        self.totals[self.phase] += start - self.since
        self.totals[phase] += now - start
        self.counts[phase] += 1
        self.since = now
        return now - start

    def recover(self):
        """A hook failed half-way: nothing is open any more."""
        self.phase = OTHER
        self.after_model = False

    def snapshot(self):
        """All sums now; called by the training thread."""
        return self._snapshot(perf_counter())

    def _snapshot(self, now):
        totals = self.totals.copy()
        totals[self.phase] += now - self.since
        return Snapshot(now, totals, self.ticks, self.samples, self.env_steps, self.backwards)

    def snapshot_from_outside(self):
        """The same for another thread, which may look while the training thread moves: then once more."""
        for _ in range(8):
            since, totals, phase = self.since, self.totals.copy(), self.phase
            now = perf_counter()
            if since == self.since and phase == self.phase and abs(sum(totals) - since + self.origin) < 1e-3:
                totals[phase] += now - since
                return Snapshot(now, totals, self.ticks, self.samples, self.env_steps, self.backwards)
        return self.snapshot()

    # -- the model's call ------------------------------------------------------------------------------

    def model_begins(self, graph, training):
        """`graph`: gradients are being recorded; `training`: the module's own flag."""
        if graph:
            if self.stage is wire.EVAL and not self.eval_named:
                self._end_eval()
            self.eval_candidate = None
            return self.enter(FORWARD)
        if self.stage is wire.EVAL:
            self.eval_edge = None
        elif not training and self.eval_candidate is None:
            self.eval_candidate = self.last_tick or self.snapshot()
        return self.enter(INFER)

    def model_ends(self, before):
        phase, start = self.phase, self.since
        self.leave(before)
        if phase == INFER:
            self.pending_infer_s += self.since - start
        self.after_model = before == OTHER or before == OPTIM
        self.loose_s = 0.0

    # -- events ----------------------------------------------------------------------------------------

    def data_begins(self):
        if self.eval_candidate is not None and self.stage is not wire.EVAL:
            self._begin_eval(self.eval_candidate)
        elif self.stage is wire.EVAL and self.eval_edge is None and not self.eval_named:
            self.eval_edge = self.snapshot()
        return self.enter(DATA)

    def env_stepped(self, steps):
        """An env step makes the inference before it acting, and rules out that this is an evaluation."""
        self.env_calls += 1
        self.env_steps += steps
        self.acting_s += self.pending_infer_s
        self.pending_infer_s = 0.0
        self.eval_candidate = None
        if self.stage is not wire.EVAL:
            self._event("e")

    def backward_begins(self):
        self.backwards += 1
        self.eval_candidate = None
        return self.enter(BACKWARD)

    def optimizer_stepped(self, optimizer):
        """The end of an optimizer's step; a tick if it is the optimizer that steps most often."""
        index = self._index_of(optimizer)
        self.steps[index] += 1
        self.pending_infer_s = 0.0
        self.eval_candidate = None
        if self.stage is wire.EVAL:  # whatever its name said, this is training
            self.eval_named = 0
            self._end_eval()
        self._event(index)
        if index != self.tick_optimizer and not self._overtakes(index):
            return index
        if index != self.tick_optimizer or self.tick_alive() is not optimizer:
            self.tick_optimizer = index
            self.tick_alive = weakref.ref(optimizer)
        self.others_since_tick = 0
        self._tick(index)
        return index

    def _index_of(self, optimizer):
        index = self.optimizers.get(id(optimizer))
        if index is None:
            index = min(len(self.steps), wire.OPTIMIZERS_MAX - 1)
            self.optimizers[id(optimizer)] = index
            if index == len(self.steps):
                self.steps.append(0)
        return index

    def _overtakes(self, index):
        """It has stepped more often; or the other is gone, or has stopped: a new phase of training."""
        self.others_since_tick += 1
        if self.steps[index] > self.steps[self.tick_optimizer] or self.tick_alive() is None:
            return True
        return self.others_since_tick > STOPPED_AFTER

    def _tick(self, index):
        self.ticks += 1
        last, self.last_tick = self.last_tick, self._snapshot(self.since)
        if self.usual is wire.STARTUP:
            self.stage = self.usual = wire.TRAIN
            self.marks.append((wire.TRAIN, self.last_tick))
        elif last is None:
            return
        elif len(self.tick_rows) < wire.TICKS_WAITING_MAX:
            self.tick_rows.append((index, last, self.last_tick))
        else:  # nobody takes them away: the disk hangs, or the pulse is dead
            self.ticks_dropped += 1

    def _event(self, symbol):
        """The order of env steps and optimizer steps, run-length coded: the iteration is found in it."""
        sequence = self.sequence
        if len(sequence) >= wire.SEQUENCE_MAX:
            return
        if sequence and sequence[-1][0] == symbol:
            sequence[-1][1] += 1
        else:
            sequence.append([symbol, 1])

    # -- stages ----------------------------------------------------------------------------------------

    def _begin_eval(self, since):
        self.eval_candidate = self.eval_edge = None
        if len(self.marks) >= wire.MARKS_MAX:  # stages that change this often are none
            return
        self.stage = wire.EVAL
        self.marks.append((wire.EVAL, since))

    def _end_eval(self):
        """Training resumes where the next training batch was asked for; the next tick starts there too."""
        edge = self.eval_edge or self.snapshot()
        self.eval_edge = None
        self.stage = self.usual
        self.marks.append((self.usual, edge))
        if self.last_tick is not None:
            self.last_tick = edge

    def stage_at(self, when):
        for stage, snapshot in reversed(self.marks):
            if snapshot.time <= when:
                return stage
        return wire.STARTUP

    def training_ended(self):
        """Called once, at the very end: what came after the last tick is no training."""
        if self.stage is wire.TRAIN and self.last_tick is not None:
            self.marks.append((wire.AFTER, self.last_tick))

    def named_eval_begins(self):
        self.eval_named += 1
        if self.eval_named == 1 and self.stage is not wire.EVAL:
            self._begin_eval(self.snapshot())

    def named_eval_ends(self):
        self.eval_named = max(0, self.eval_named - 1)
        if self.eval_named == 0 and self.stage is wire.EVAL:
            self._end_eval()


def process_start_s():
    """When this process began, on the clock of `perf_counter`. The kernel counts from boot and through sleep,
    `perf_counter` does not count sleep."""
    try:
        with open("/proc/self/stat", "rb") as handle:
            fields = handle.read().rpartition(b")")[2].split()
        slept_s = time.clock_gettime(time.CLOCK_BOOTTIME) - perf_counter()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK") - slept_s
    except (OSError, ValueError, IndexError, AttributeError):
        return None
