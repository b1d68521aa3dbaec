"""Where the training thread is, and since when: the hot path of the agent.

One recorder per process, one owner thread. Hooks call `enter` and `leave`; every moment between belongs to
exactly one phase. All sums are cumulative; the pulse thread reads them once a second. Nothing here writes.
"""

import weakref

from . import retelling, wire
from .originals import get_ident as _get_ident
from .originals import perf_counter, sleep
from .retelling import STOPPED_AFTER
from .stages import EDGE, Snapshot, Stages
from .thinning import Thinning
from .wire import BACKWARD, COMPILE, DATA, FORWARD, GC, INFER, LOSS, OPTIM, OTHER, THIN

# Inside these a module's call is part of what already runs: a layer of the model, a recomputed block.
TRANSPARENT = tuple(phase in (FORWARD, INFER, BACKWARD, COMPILE, THIN) for phase in range(THIN + 1))

# What may follow a model's call for the time between to count as the loss: more of the same, or backward.
CLOSES_LOSS = tuple(phase in (FORWARD, INFER, BACKWARD) for phase in range(THIN + 1))


class Recorder(Stages):
    __slots__ = (
        "owner",
        "phase",
        "since",
        "origin",
        "totals",
        "counts",
        "after_model",
        "modeled",
        "loose_s",
        "acting_s",
        "pending_infer_s",
        "samples",
        "env_steps",
        "env_calls",
        "optimizers",
        "steps",
        "alive",
        "tick_optimizer",
        "others_since_tick",
        "ticks",
        "ticks_dropped",
        "tick_end",
        "tick_counts",
        "tick_totals",
        "tick_rows",
        "symbols",
        "repeats",
        "stage",
        "usual",
        "marks",
        "eval_candidate",
        "eval_edge",
        "eval_named",
        "ended",
        "range_totals",
        "batch_rows",
        "given",
        "asked",
        "want_shapes",
        "trained",
        "opened",
        "thinning",
        "within",
        "deferring",
        "left",
        "log",
        "kept",
        "kept_since",
        "replaying",
        "at_tick",
        "at_lead",
        "collected",
        "read_collected",
        "on_start",
        "started",
    )

    def __init__(self, on_start):
        self.collected = ()  # notes of collections that are not told of yet; `hooks.collector` reads them
        self.read_collected = None
        self.on_start = on_start
        self.reset()

    def reset(self):
        """A new process (first start, or the child of a fork) begins from nothing."""
        self.owner = None
        self.phase = OTHER
        self.since = self.origin = perf_counter()
        self.totals = [0.0] * (THIN + 1)
        self.counts = [0] * (THIN + 1)
        self.after_model = False
        self.modeled = False  # a model was called with gradients; only ever so in a stretch passed over
        self.loose_s = 0.0
        self.acting_s = 0.0
        self.pending_infer_s = 0.0
        self.samples = 0
        self.env_steps = 0
        self.env_calls = 0
        self.optimizers = {}
        self.steps = []
        self.alive = []
        self.tick_optimizer = 0
        self.others_since_tick = 0
        self.ticks = 0
        self.ticks_dropped = 0
        self.tick_end = None
        self.tick_counts = None
        self.tick_totals = None
        self.tick_rows = []
        self.symbols = [None]  # nothing is equal to None
        self.repeats = [0]
        self.stage = self.usual = wire.STARTUP
        self.marks = []
        self.eval_candidate = None
        self.eval_edge = None
        self.eval_named = 0
        self.ended = None  # when the training's batches last ran out
        self.range_totals = {}
        self.batch_rows = None
        self.given = None  # to a model with gradients: the shape
        # To one without them: the shape, and the place where it was of a model that is trained: in eval mode,
        # or, as -place, in training mode. 0: of another model.
        self.asked = []
        self.want_shapes = [True, True]  # of calls without gradients, and with them
        self.trained = set()  # ids of parameters, by one of which a model that is trained is known
        self.opened = False  # a loader that trains, and no model was called since
        self.thinning = Thinning(self)
        self.within = 0  # in a stretch passed over: the call that runs, so that what it calls ends no stretch
        self.deferring = False
        self.left = 0  # stretches to pass over
        self.log = []  # ends of stretches, to be told of together; by ids where known, to keep nobody alive
        self.kept = None  # the sums as they were at `kept_since`, for the log
        self.kept_since = None
        self.replaying = False
        self.at_tick = None
        self.at_lead = None
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
        if self.collected:
            self.read_collected()
        now = perf_counter()
        before = gap = self.phase
        self.modeled = False
        if self.after_model:
            self.after_model = False
            if CLOSES_LOSS[phase]:
                gap = LOSS
                self.totals[before] -= self.loose_s
                self.totals[LOSS] += self.loose_s
        elif before == OPTIM and CLOSES_LOSS[phase]:
            gap = self.closure_begins()
        self.totals[gap] += now - self.since
        self.counts[phase] += 1
        self.since = now
        self.phase = phase
        return before

    def closure_begins(self):
        """What ran in step() before the model of a closure: the user's code, not the optimizer's. But one
        that calls its closure again and again (LBFGS) is itself at work between the calls."""
        done = self.tick_counts[3] if self.tick_counts is not None else 0
        return OPTIM if self.counts[BACKWARD] > done else OTHER

    def leave(self, before):
        if self.collected:
            self.read_collected()
        now = perf_counter()
        self.totals[self.phase] += now - self.since
        self.since = now
        self.phase = before

    def attribute(self, phase, start, end=None):
        """What ran since `start` turns out to have been `phase`; returns its length. With an `end`, told of
        later, but before the phase changed; else it is let go."""
        if end is None and self.collected:
            self.read_collected()
        now = perf_counter() if end is None else end
        if self.replaying:  # these are the sums of an earlier moment; those of now are put back afterwards
            return now - start
        if start < self.since:
            start = self.since
        if now < start:
            return 0.0
        if self.after_model:
            self.loose_s += start - self.since  # the loss, or not: the next phase tells
        self.totals[self.phase] += start - self.since
        self.totals[phase] += now - start
        self.counts[phase] += 1
        self.since = now
        return now - start

    def recover(self):
        """A hook failed half-way: nothing is open any more."""
        if self.phase == THIN:  # told of by the log, and not to be counted a second time
            now = perf_counter()
            self.totals[THIN] += now - self.since
            self.since = now
        self.phase = OTHER
        self.after_model = self.modeled = self.opened = False
        self.within = 0

    def snapshot(self):
        """All sums now; called by the training thread."""
        self.replay()
        return self._snapshot(perf_counter())

    def _snapshot(self, now):
        if self.collected:
            self.read_collected()
        totals = self.totals.copy()
        totals[self.phase] += now - self.since
        return Snapshot(now, totals, self.ticks, self.samples, self.env_steps, self.counts[BACKWARD])

    def acting(self):
        """Seconds of inference that an env step followed, with the share of what was passed over."""
        infer_s, passed_over_s = self.totals[INFER], self.thinning.settled_infer_s
        seen_s = infer_s - passed_over_s
        return self.acting_s * infer_s / seen_s if passed_over_s and seen_s > 0 else self.acting_s

    def snapshot_from_outside(self):
        """The same for another thread, which may look while the training thread moves: then once more, for up
        to 20 ms, since a busy machine may leave that thread without a core half-way. With it, the calls of
        environments and the steps of each optimizer."""
        for _ in range(200):
            moved = self.replaying
            since, totals, phase, log = self.since, self.totals.copy(), self.phase, self.log
            now, counted, samples = perf_counter(), self._counted(log), self.samples
            backwards = self.counts[BACKWARD]
            moved = (
                moved or since != self.since or phase != self.phase or log is not self.log or self.replaying
            )
            if not moved and abs(sum(totals) - since + self.origin) < 2e-5:
                totals[phase] += now - since
                self._tell_collected(totals, phase, since)
                break
            sleep(0.0001)  # it stands half-way through a change: let it go on
        else:
            now = perf_counter()
            totals[phase] += now - since
        ticks, env_steps, env_calls, steps = counted
        return Snapshot(now, totals, ticks, samples, env_steps, backwards), env_calls, steps

    def _tell_collected(self, totals, phase, since):
        """Of collections that the training thread has not told of; an odd one is at work, or being read."""
        notes = list(self.collected)
        for (start, thread), (end, _) in () if len(notes) % 2 else zip(notes[::2], notes[1::2]):
            if thread == self.owner and start >= since:
                totals[phase] -= end - start
                totals[GC] += end - start

    def _counted(self, log):
        """Ticks, env steps, env calls and steps, with those that wait in the log: it is told of together, up
        to a second later, and a training that is killed never tells of the last."""
        ticks, env_steps, env_calls, steps = self.ticks, self.env_steps, self.env_calls, self.steps.copy()
        for ends, subject, *_ in log[:]:
            key, counts = subject if type(subject) is int else id(subject), getattr(ends, "counts", None)
            if counts is not None:
                env_calls += 1
                env_steps += counts.get(key, 1)
                continue
            index = self.optimizers.get(key)
            if index is not None and index < len(steps):  # else it was made this very moment
                steps[index] += 1
                ticks += index == self.tick_optimizer
        return ticks, env_steps, env_calls, steps

    # -- the model's call, told apart ------------------------------------------------------------------

    def loss_ends(self):
        """What was counted as `other` since the model's call, around a collection or a copy, was the loss."""
        if self.loose_s:
            self.totals[self.phase] -= self.loose_s
            self.totals[LOSS] += self.loose_s
        return LOSS

    # -- events ----------------------------------------------------------------------------------------

    def data_begins(self):
        self.batch_asked_for()
        return self.enter(DATA)

    def batch_asked_for(self):
        """What a model was just asked in eval mode is an evaluation, and it may end here: what is asked for
        may be the training's next batch."""
        if self.eval_candidate is not None and self.stage is not wire.EVAL:
            self._begin_eval(self.eval_candidate)
        if self.stage is wire.EVAL and self.eval_edge is None and not self.eval_named:
            self.eval_edge = self.snapshot()

    def env_stepped(self, steps):
        """An env step makes the inference before it acting, and rules out that this is an evaluation."""
        self.env_calls += 1
        self.env_steps += steps
        self.acting_s += self.pending_infer_s
        self.pending_infer_s = 0.0
        self.eval_candidate = None
        if self.stage is wire.EVAL:
            return
        symbols = self.symbols
        if symbols[-1] == "e":
            self.repeats[-1] += 1
        elif len(symbols) < wire.SEQUENCE_MAX:
            symbols.append("e")
            self.repeats.append(1)
        elif symbols[-1] is not None:
            self._close_sequence()
        if self.thinning.active:
            self.thinning.stretch_ends()

    def optimizer_stepped(self, optimizer):
        """The end of an optimizer's step; a tick if it is the optimizer that steps most often. The log has
        the id of one that is known."""
        index = self.optimizers.get(optimizer if type(optimizer) is int else id(optimizer))
        if index is None:
            index = self._new_optimizer(optimizer)
        steps = self.steps
        steps[index] += 1
        self.pending_infer_s = 0.0
        self.eval_candidate = None
        if self.stage is wire.EVAL:  # whatever its name said, this is training
            self.eval_named = 0
            self._end_eval()
        symbols = self.symbols
        if symbols[-1] == index:
            self.repeats[-1] += 1
        elif len(symbols) < wire.SEQUENCE_MAX:
            symbols.append(index)
            self.repeats.append(1)
        elif symbols[-1] is not None:
            self._close_sequence()
        if index == self.tick_optimizer or self._ticks_now(index):
            self._tick(index)
        if self.thinning.active:
            self.thinning.stretch_ends()
        return index

    def _tick(self, index):
        self.others_since_tick = 0
        self.ticks = ticks = self.ticks + 1
        rows = self.tick_rows
        self.tick_end = end = self.since
        self.tick_counts = (ticks, self.samples, self.env_steps, self.counts[BACKWARD])
        self.tick_totals = totals = self.totals if self.replaying else self.totals.copy()
        if self.at_tick is not None and not self.replaying and self.at_tick():
            return  # a tick of a deep window: it is not counted
        if self.usual is wire.STARTUP:
            self._first_tick()
        elif len(rows) < wire.TICKS_WAITING_MAX:
            rows.append((index, end, None if self.phase == THIN else totals))
        else:  # nobody takes them away: the disk hangs, or the pulse is dead
            self.ticks_dropped += 1
        if self.at_lead is not None and not self.replaying:
            self.at_lead()

    def ended_closely(self, ends, subject):
        """What began in a stretch passed over ends where everything is looked at."""
        if self.collected:
            self.read_collected()
        now = perf_counter()
        self.totals[self.phase] += now - self.since
        self.since = now
        self.replay()
        ends(subject)

    def replay(self):
        """Tell of the ends of stretches noted in the log, in one go: one by one, between calls that empty the
        caches, each took 10 microseconds (CPU, 2026-11), in a row a tenth of that."""
        if not self.log or self.replaying:
            return
        now = self.since, self.totals, self.pending_infer_s, self.phase, self.within
        ticks, at = self.ticks, 0
        try:  # a signal's exception may come between any two lines
            self.replaying = True  # first: whoever looks from outside between these lines looks again
            log, self.log = self.log, []
            while (at := retelling.told(self, log, at)) < len(log):
                ends, subject, end, since, totals, waits, phase, within = log[at]
                at += 1
                if since != end:
                    totals = totals.copy()
                    totals[phase] += end - since
                self.since, self.totals, self.pending_infer_s = end, totals, waits
                self.phase, self.within = phase, within
                ends(subject)
        finally:
            try:
                self.since, self.totals, self.pending_infer_s, self.phase, self.within = now
            finally:
                self.replaying = False
        if self.ticks != ticks:
            if self.at_tick is not None:
                self.at_tick()
            if self.at_lead is not None:
                self.at_lead()

    def _ticks_now(self, index):
        """Another optimizer steps more often by now, or the one that ticked is done."""
        self.others_since_tick += 1
        if self.steps[index] <= self.steps[self.tick_optimizer] and not self._tick_stopped():
            return False
        self.tick_optimizer = index
        return True

    def _tick_stopped(self):
        """The optimizer that ticks is gone, or steps no more: a new phase of training."""
        return self.others_since_tick > STOPPED_AFTER or self.alive[self.tick_optimizer]() is None

    def _new_optimizer(self, optimizer):
        index = min(len(self.steps), wire.OPTIMIZERS_MAX - 1)
        self.optimizers[id(optimizer)] = index
        if index == len(self.steps):
            self.steps.append(0)
            self.alive.append(None)
        self.alive[index] = weakref.ref(optimizer)
        return index

    def _first_tick(self):
        """It began in the dark; training is what follows."""
        self.tick_rows.append((EDGE, self.tick_end, self.tick_totals))
        self.stage = self.usual = wire.TRAIN
        self.marks.append((wire.TRAIN, self.last_tick()))

    def take_tick_rows(self):
        """The rows so far; called by the pulse while the training thread goes on appending."""
        rows = self.tick_rows
        taken = rows[:]
        del rows[: len(taken)]
        return taken

    def last_tick(self):
        """The sums when the last tick ended; now, if there was none."""
        self.replay()
        if self.tick_end is None:
            return self.snapshot()
        return Snapshot(self.tick_end, self.tick_totals, *self.tick_counts)

    def _close_sequence(self):
        """Enough was seen of the order of events; the last run must not grow on."""
        self.symbols.append(None)
        self.repeats.append(0)
