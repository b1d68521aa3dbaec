"""How far the GPU is behind the host, and so in which phase it runs out of work.

Some iterations are chosen at random, whole ticks of them, and at each edge of a phase one of two things is
done, by the training thread itself:

- A loop that waits for the GPU in every tick drains its queue each time: the stream is asked whether it is
  done (`query`, under a microsecond). No event is recorded.
- In other loops an event is recorded on the current stream (about 9 microseconds). Later, when all are done,
  their distances give the moments at which the GPU reached each edge. Where those lie on the host's clock
  follows from when each was recorded, last found pending and first found done. Each sample has an origin of
  its own: `elapsed_time` is a 32-bit float of milliseconds.

Nothing is ever waited for, and nothing is done while a CUDA graph is captured. What it costs is measured, and
the next sample comes so much later that the share stays below SHARE_MAX.
"""

import random

from . import wire
from .lead_account import BLOCKED_S, DRAINED, PENDING, Account, place
from .originals import perf_counter
from .tape import Tape
from .wire import OTHER, SYNC, THIN

SHARE_MAX = 0.001
LOOK_EVERY = 5
"""Ticks after which one sees again whether a sample may begin."""
FIRST_S = 0.5
SAMPLE_S = 0.1
TICKS_MAX = 64
EDGES_MAX = 150
HELD_S = 12e-6
"""What an edge costs beside: while a sample is taken no stretch is passed over (thinning.CALL_S)."""
EDGE_MAX_S = 0.00005
"""An edge that takes longer has waited in a full queue, as the script's next launch would have."""
GAP_MIN_S = 0.3
OVERDUE_S = 20.0
FEW, MANY = 10, 300
"""The first few come more often, so that something is known after some seconds; so many tell the shares to a
point, and from then on they come less often."""
SYNCED = 0.9


class LeadClock:
    def __init__(self, recorder, cuda, capturing):
        self.recorder = recorder
        self.cuda = cuda
        self.capturing = capturing
        self.accounts = {}
        self.streams = set()
        self.tape = self.waiting = None
        self.next_tick = LOOK_EVERY
        self.since = None
        self.left = 0
        self.samples = 0
        self.cost_s = 0.0
        self.pool = []
        self.error = None
        self.native = None
        self.random = random.Random(0)  # the script's random numbers are the script's

    # -- the training thread, at each tick -------------------------------------------------------------

    def at_tick(self):
        if self.error is not None:
            raise self.error
        if self.tape is not None:
            self.left -= 1
            if self.left <= 0 or self.tape.full:
                self._stop()
        elif self.waiting is not None:
            self._collect()
        elif self.recorder.ticks >= self.next_tick:
            self._start()

    def _start(self):
        recorder = self.recorder
        self.next_tick = recorder.ticks + LOOK_EVERY
        now = (perf_counter(), recorder.ticks, recorder.counts[SYNC])
        if self.since is None:
            self.since = now
        seconds, ticks, syncs = (late - early for late, early in zip(now, self.since))
        if seconds < FIRST_S and not self.samples or ticks < 2 or recorder.stage is not wire.TRAIN:
            return
        if recorder.phase not in (OTHER, THIN) or recorder.within or not self._usable():
            return
        self.left = max(2, min(TICKS_MAX, round(SAMPLE_S * ticks / seconds)))
        stream = self.cuda.current_stream()
        self.streams.add((stream.device_index, stream.cuda_stream))
        recorder.thinning.hold("lead")
        kind = Asked if syncs >= SYNCED * ticks else Recorded
        self.tape = kind(recorder, stream, self)
        self.tape.start()

    def _usable(self):
        """A torch without CUDA has its names, too."""
        built = getattr(self.cuda, "_is_compiled", None)
        if built is not None and not built():
            self.next_tick = float("inf")
            return False
        return self.cuda.is_initialized() and not self.captures()

    def captures(self):
        return self.capturing() or self.cuda.is_current_stream_capturing()

    def _stop(self):
        tape, self.tape = self.tape, None
        tape.stop()
        self.recorder.thinning.let_go("lead")
        self.waiting = tape
        self._collect()

    def _collect(self):
        """Into the account once the GPU is done with it; a sample it never gets done with is dropped."""
        began, tape = perf_counter(), self.waiting
        if not tape.spoiled and self.captures():
            return  # ask later
        edges = None if tape.spoiled else tape.marked()
        if edges is None and not tape.spoiled and began - tape.edges[-1][0] < OVERDUE_S:
            return
        self.waiting = None
        if edges is not None:
            self._sampled(tape).take(edges, tape)
        self.pool += tape.events
        self._plan(tape.cost_s + perf_counter() - began, HELD_S * len(tape.edges))

    def _plan(self, cost_s, held_s):
        recorder, self.cost_s = self.recorder, self.cost_s + cost_s + held_s
        self.samples += 1
        elapsed, ticks = perf_counter() - self.since[0], recorder.ticks - self.since[1]
        if self.samples == 1:  # the first of everything takes ten times as long, and comes once
            cost_s /= 10
        if self.samples > FEW:
            cost_s += held_s
        wanted_s = max(GAP_MIN_S, cost_s / SHARE_MAX) * (1 if self.samples < MANY else 4)
        gap_s = wanted_s * self.random.uniform(0.5, 1.5)
        self.next_tick = recorder.ticks + max(3, round(gap_s * ticks / max(elapsed, 1e-6)))
        self.since = (perf_counter(), recorder.ticks, recorder.counts[SYNC])

    def _sampled(self, tape):
        key = (tape.by, tape.stream.device_index, tape.stream.cuda_stream)
        return self.accounts.setdefault(key, Sampled())

    def account(self, tape):
        return self._sampled(tape).account

    def allocations(self, device):
        """None where that cannot be had on the host alone."""
        if self.native is None:
            backend = getattr(self.cuda, "get_allocator_backend", None)
            self.native = backend is not None and backend() == "native"
        if not self.native:
            return None
        return self.cuda.memory_stats_as_nested_dict(device)["allocation"]["all"]["allocated"]

    def event(self):
        return self.pool.pop() if self.pool else self.cuda.Event(enable_timing=True)

    def abandon(self):
        """Something failed: nothing of ours stays on."""
        tape, self.tape, self.waiting = self.tape, None, None
        if tape is not None:
            tape.stop()
            self.recorder.thinning.let_go("lead")

    def leave_behind(self):
        """In the child of a fork no event may be freed, not even at its end: that asks CUDA, which cannot be
        used there, and torch ends the process (seen: the workers of a DataLoader aborted)."""
        import ctypes  # torch has imported it long before

        events = [*self.pool]
        for tape in (self.tape, self.waiting):
            events += getattr(tape, "events", ())
        for event in events:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(event))

    # -- the pulse -------------------------------------------------------------------------------------

    def row(self):
        """Of the stream most was seen of; cumulative."""
        accounts = [item for item in list(self.accounts.items()) if item[1].samples]
        if not accounts:
            return None
        (by, device, stream), best = max(accounts, key=lambda item: item[1].wall_s)
        return {
            "by": by,
            "device": device,
            "stream": stream,
            "streams": len(self.streams),
            "iterations": best.samples,
            "ticks": best.ticks,
            "wall_s": round(best.wall_s, 6),
            "cost_s": round(self.cost_s, 6),
            "doubt_s": round(best.doubt_s, 6),
            "phases": {
                name: [round(seconds, 6) for seconds in row]
                for name, row in zip(wire.PHASES, best.account.rows)
                if row[0] > 0.0
            },
        }


class Sampled:
    """All samples of one kind on one stream."""

    def __init__(self):
        self.account = Account(len(wire.PHASES))
        self.samples = self.ticks = 0
        self.wall_s = self.doubt_s = 0.0

    def take(self, edges, tape):
        self.account.add(edges, tape.drained, tape.allocations)
        self.samples += 1
        self.ticks += tape.ticks
        self.wall_s += edges[-1][0] - edges[0][0]
        self.doubt_s = max(self.doubt_s, tape.doubt_s)


class _LeadTape(Tape):
    """Edges of (host time, phase, mark)."""

    by = ""

    def __init__(self, recorder, stream, clock):
        super().__init__(recorder, None, None)
        self.stream = stream
        self.clock = clock
        self.events = []
        self.drained = []
        self.allocations = []
        self.began_with = None
        self.ticks = clock.left
        self.cost_s = self.doubt_s = 0.0
        self.full = self.spoiled = False

    def stop(self):
        """At the end of a tick; or in the middle, because somebody else needs the edges."""
        super().stop()
        self.spoiled = self.spoiled or len(self.edges) < 2

    def changed(self, phase):
        self._edge(perf_counter(), phase)

    def told(self, start, end, phase):
        if not self.full:
            self.edges.append((start, phase, self._at_wait(start, end) if phase == SYNC else None))
            self.drained.append(None)
            self.allocations.append(None)
            self._edge(end, self.recorder.phase, waited=phase == SYNC)

    def _edge(self, now, phase, waited=False):
        """Called from the middle of other hooks: what goes wrong here is told at the next tick."""
        began = perf_counter()
        if self.full:
            return
        try:
            if self.clock.capturing():
                self.full = self.spoiled = True
                return
            drained = waited or self.stream.query()
            self.edges.append((now, phase, self._mark(drained)))
            self.drained.append(drained)
            self.allocations.append(self._allocations(phase))
        except Exception as error:
            self.full = self.spoiled = True
            self.clock.error = error
        self.full = self.full or len(self.edges) >= EDGES_MAX
        self.cost_s += min(perf_counter() - began, EDGE_MAX_S)

    def _allocations(self, phase):
        """How often torch has given out memory of this GPU so far: a phase in which it did issues work. Asked
        only around phases of which that is not known yet, for it takes some 20 microseconds."""
        before, self.began_with = self.began_with, phase
        account = self.clock.account(self)
        if account.known(phase) and (before is None or account.known(before)):
            return None
        return self.clock.allocations(self.stream.device_index)

    def marked(self):
        """The edges with their marks, or None while some are not known yet."""
        return self.edges


class Asked(_LeadTape):
    by = "asked"

    def _mark(self, drained):
        return DRAINED if drained else PENDING

    def _at_wait(self, start, end):
        return PENDING if end - start > BLOCKED_S else DRAINED


class Recorded(_LeadTape):
    by = "events"

    def __init__(self, recorder, stream, clock):
        super().__init__(recorder, stream, clock)
        self.seen = []
        self.done = 0

    def _mark(self, drained):
        event = self.clock.event()
        recorded = perf_counter()
        event.record(self.stream)
        self.events.append(event)
        self.seen.append([recorded, recorded, None])  # recorded, last found pending, first found done
        self._ask()
        return len(self.events) - 1

    def _at_wait(self, start, end):
        """All that was given to the GPU before was done when the wait was over."""
        return end if end - start > BLOCKED_S else start

    def _ask(self):
        """They are done in the order in which they were recorded."""
        while self.done < len(self.events):
            asked = perf_counter()
            if not self.events[self.done].query():
                self.seen[self.done][1] = asked
                return
            self.seen[self.done][2] = perf_counter()
            self.done += 1

    def marked(self):
        self._ask()
        if self.done < len(self.events):
            return None
        first = self.events[0]
        elapsed = [first.elapsed_time(event) / 1e3 for event in self.events]
        bounds = [(row[0], after, row[1], row[2]) for row, after in zip(self.seen, elapsed)]
        offset, self.doubt_s = place(bounds)
        return [
            (when, phase, offset + elapsed[mark] if isinstance(mark, int) else mark)
            for when, phase, mark in self.edges
        ]
