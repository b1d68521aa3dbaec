"""A thread of its own: looks at the training thread's stack now and then, and writes once a second.

Its own cost is measured on its own CPU clock. Looking is held under a share of the wall time: if it takes
longer than that, it looks less often. Writing does not count there, or a loop of many ticks, whose rows take
longer to write, would be looked at less often than a slow one.

A thread that wakes up gets the interpreter lock when the other lets go of it: at the next torch operation, or
after the switch interval (5 ms). Looking at once would find pure Python too seldom and what follows it too
often. So the moment of a look is drawn beforehand. The long sleep ends a little earlier; how much, is learnt
from how late the lock came lately. What is left is slept with a short switch interval, which is put back at
once, and this thread asks the kernel for no slack of its timers: with the usual 50 us, at each of the two
times it wakes up, pure Python in pieces of 0.2 ms was found half as often as it is there (CPU, 2026-11-19).
The moment of looking then depends on the clock alone, to within 0.1 ms. Where that has passed, a call
into C held the lock for long (a sort, a list into a tensor, a collection): the training thread stands at its
end, and only until this one sleeps again.

Where another thread computes in Python all the time, the training thread waits for the lock as long, and a
short interval would give it what it lacks (three times as fast, CPU, 2026-11-19). Such a training is looked
at when the lock comes.
"""

import os
import random
import signal
import sys
from functools import partial
from itertools import accumulate, chain, repeat, starmap, takewhile
from operator import attrgetter, is_not

from . import wire
from .collecting import NoCollections, at_once
from .originals import allocate_lock, get_ident, perf_counter, sleep, start_new_thread, thread_time

SAMPLE_S = 0.08
RARER_AFTER = (100, 250, 600)
"""Looks after which the next ones come half as often: some 100 in 8 s, 250 in half a minute, 360 in a minute,
600 in two. Those tell a line's share to two points. Each holds the training up for 0.4 to 0.8 ms (CPU,
2026-11)."""
SWITCH_S = 0.000021  # not a number that a script would choose, and one that is kept exactly
NAP_MIN_S = 0.0005
NAP_MAX_S = 0.010
HELD_S = 0.001
"""After the moment to look: Python code hands the lock over in a tenth of that, from where it stands."""
SHARE_MAX = 0.003
FLUSH_S = 1.0
LINES_S = 5.0
THIN_OTHER = 100
"""Added to the phase of a look in a stretch that is passed over."""
DEPTH_MAX = 1000
_WHERE = attrgetter("f_code", "f_lineno", "f_lasti")
_STATE, _COLLECTED = attrgetter("phase", "after_model", "modeled"), attrgetter("collected")
_IS_FRAME = partial(is_not, None)
_WAITING = (wire.SYNC, wire.H2D)
WAITING_DEPTH = 3
_TWIN = {wire.FORWARD: wire.INFER}
SITES_MAX = 256


class Pulse:
    def __init__(self, recorder, places, flush, codes):
        self.recorder = recorder
        self.places = places
        self.flush = flush
        self.codes = codes
        self.seen = {}
        self.sites = {}  # lines that call a model: whether with gradients, as far as that was seen
        self.stacks = []  # as they were seen, until the next writing
        self.recent = []
        self.lines = {}
        self.waits = {}  # of those: the thread waited for another process
        self.computes = {}  # it computed in Python itself
        self.samples = 0
        self.cost_s = 0.0
        self.interval_s = SAMPLE_S
        self.late_s = 0.005  # how late the lock came, at worst, lately
        self.shared = False  # another thread wants the lock, too, all the time
        self.stopping = False
        # Waited for until stop(). To wait for an Event takes more Python code, each time among caches full of
        # something else.
        self.held = allocate_lock()
        self.held.acquire()
        self.gone = allocate_lock()
        self.ident = None
        self.paused = False
        self.lock = allocate_lock()
        self.collections = NoCollections()
        self.error = None
        self._usual_switch_s = self._brief_switch_s = self._known_switch_s = None
        self._random = random.Random(0)  # its own generator: the script's random numbers are the script's

    def start(self):
        """Not by `threading`: a script that joins or counts all threads there are would wait for this one."""
        self.gone.acquire()
        self.ident = start_new_thread(self._run, ())

    def stop(self):
        """The thread is gone before the interpreter is taken apart around it; called by the process's end."""
        if not self.stopping:
            self.stopping = True
            self.held.release()
        if self.ident not in (None, get_ident()) and self.gone.acquire(True, 1.0):
            self.gone.release()

    def _run(self):
        try:
            # What the script has blocked in its own threads must not be delivered to this one.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            self.collections.calling(sleep, 0)
            _wake_on_time()
            self._beat()
        except Exception as error:  # watching ends, the training does not
            self.error = repr(error)
        finally:
            self.collections.end()
            self.gone.release()

    def _beat(self):
        last_flush = perf_counter()
        while not self.stopping:
            moment, shared = perf_counter() + self._gap_s(), self.shared
            self._sleep_before(moment, shared)
            if self.stopping:
                return
            if self.paused:  # benchmarks switch watching on and off
                continue
            started = thread_time()
            self._look_at(moment, shared)
            self._limit(thread_time() - started)
            started, now = thread_time(), perf_counter()
            if now - last_flush >= FLUSH_S:
                last_flush = now
                with self.lock:
                    if self.stopping:
                        return
                    self.read_stacks()
                    self.flush()
            self.cost_s += thread_time() - started

    def _gap_s(self):
        """Exponential gaps have no period that could fall in step with the loop."""
        return NAP_MAX_S + min(1.0, self.interval_s * (0.3 + self._random.expovariate(1 / 0.5)))

    def _sleep_before(self, moment, shared=False):
        """To a little before it; learns how late a thread that wakes up gets the lock in this loop."""
        end = moment if shared else moment - min(NAP_MAX_S, NAP_MIN_S + 1.2 * self.late_s)
        self.collections.calling(self.held.acquire, True, max(0.0, end - perf_counter()))
        if self.stopping:
            return
        late_s = perf_counter() - end
        self.late_s = late_s if late_s > self.late_s else 0.99 * self.late_s

    def _look_at(self, moment, shared=False):
        """A script that asked for the interval during a nap may have put ours back later."""
        nap_s = moment - perf_counter()
        if nap_s <= 0 or shared:
            return self.look(moment, shared=shared)
        found_s = sys.getswitchinterval()
        if found_s != self._brief_switch_s or self._known_switch_s is None:
            self._known_switch_s = found_s
        self._usual_switch_s = self._known_switch_s
        sys.setswitchinterval(min(SWITCH_S, self._usual_switch_s))
        self._brief_switch_s = sys.getswitchinterval()
        try:
            self.look(moment, nap_s)
        finally:
            self.wake()

    def calling(self, function, *args):
        """As little as the rest may a long call of this thread keep the script's collections back."""
        mine = self.ident is not None and get_ident() == self.ident
        return self.collections.calling(function, *args) if mine else function(*args)

    def wake(self):
        """End the nap, here or in the child of a fork, where nobody else would."""
        usual, self._usual_switch_s = self._usual_switch_s, None
        if usual is not None and sys.getswitchinterval() == self._brief_switch_s:
            sys.setswitchinterval(usual)  # else the script has chosen another meanwhile

    def look(self, moment=0.0, nap_s=0.0, shared=False):
        """Only what must be done while the training thread stands still: where it stands. To find out what
        that means, among caches full of something else, took ten times as long as this (CPU, 2026-11)."""
        recorder = self.recorder
        owner = recorder.owner
        if owner is None:
            return
        steps = chain(_state(recorder), _frames(owner))
        nap = self.collections.resting(sleep, nap_s) if nap_s > 0 else ()
        (phase, after_model, modeled), notes, *stack = at_once(steps, nap)
        now = perf_counter()
        self.collections.rested()
        held = now - moment > HELD_S and not shared
        if held and len(stack) > 1 and self.places.begins(stack):
            # A call held the lock, or what it made was freed; it came at the next function's door.
            del stack[0]
        if self.stopping or not stack:
            return
        if notes and _in_collection(moment, notes, owner):
            phase = wire.GC
        elif phase == wire.OTHER and after_model:
            phase = wire.LOSS
        self.stacks.append((now, phase, modeled, stack))
        self.samples += 1
        if self.samples < RARER_AFTER[0]:
            recorder.want_shapes[0] = True  # what a model is asked next, without gradients

    def read_stacks(self):
        """What was seen since the last writing, in one go."""
        stacks, self.stacks = self.stacks, []
        for when, phase, modeled, stack in stacks:
            waiting = None if phase == wire.GC else self._waiting_in(stack)
            if waiting is not None:
                phase = waiting
            elif phase == wire.THIN:
                phase = THIN_OTHER + self._on_stack(stack)
                if phase == THIN_OTHER + wire.OTHER:
                    phase = wire.LOSS if modeled else wire.OTHER
            elif phase in (wire.FORWARD, wire.INFER):
                self._note_site(stack, phase)
            waits, computes = self.places.waits(stack), self.places.computes(stack)
            self.recent.append((when, phase, self.places.with_callers(stack), waits, computes))

    def _waiting_in(self, stack):
        """The phase of a wait or a copy of torch's; a few of those have Python code of their own within."""
        for code, _, _ in stack[:WAITING_DEPTH]:
            known = self.codes.get(id(code))
            if known in _WAITING:
                return known
        return None

    def _on_stack(self, stack):
        """The phase of a stretch that is passed over: its outermost call that has one. What a step calls is
        not the step's: its closure, in which some trainers do everything else."""
        phase, site, codes = wire.OTHER, 0, self.codes
        for depth, (code, _, _) in enumerate(stack, 1):
            known = codes.get(id(code))
            if known is not None and (known != wire.OPTIM or phase == wire.OTHER):
                phase, site = known, depth
        if phase == wire.FORWARD and site < len(stack):
            code, line, _ = stack[site]
            return self.sites.get((id(code), line), (code, phase))[1] or phase
        return phase

    def _note_site(self, stack, phase):
        """A look that could tell inference from forward knows it of the line that calls the model."""
        known = [
            depth for depth, (code, _, _) in enumerate(stack, 1) if self.codes.get(id(code)) == wire.FORWARD
        ]
        if known and known[-1] < len(stack):
            code, line, _ = stack[known[-1]]
            self.called_at(code, line, phase)

    def called_at(self, code, line, phase):
        """A model is called there, with gradients or without; a line seen to do both tells nothing."""
        key = id(code), line
        known = self.sites.get(key)
        if known is None and len(self.sites) < SITES_MAX:
            self.sites[key] = code, phase  # the code is kept, and so its id
        elif known is not None and known[1] != phase:
            self.sites[key] = code, None

    def _phase_of(self, phase, place):
        """A stack does not tell inference from forward: looks that could tell have found one of the two in
        this place, or none."""
        if phase < THIN_OTHER:
            self.seen.setdefault(place, phase)
            return phase
        phase -= THIN_OTHER
        twin = _TWIN.get(phase)
        return twin if twin is not None and self.seen.get(place) == twin else phase

    def settle(self, last=False):
        """That an evaluation has begun is known only later: a look finds its stage once a tick is over."""
        recorder = self.recorder
        self.read_stacks()
        known = float("inf") if last else recorder.settled_until()
        recent, self.recent = self.recent, []
        for look in recent:
            when, phase, place, *found = look
            if when > known:
                self.recent.append(look)
                continue
            key = (self._phase_of(phase, place), recorder.stage_at(when), place)
            self.lines[key] = self.lines.get(key, 0) + 1
            for counts, so in zip((self.waits, self.computes), found):
                if so:
                    counts[key] = counts.get(key, 0) + 1

    def _limit(self, cost_s):
        self.cost_s += cost_s
        usual = SAMPLE_S * 2 ** sum(self.samples >= many for many in RARER_AFTER)
        wanted = cost_s / SHARE_MAX if cost_s > 0.0005 else usual
        self.interval_s = max(usual, 0.9 * self.interval_s + 0.1 * min(wanted, 1.0))


def _wake_on_time():
    """Timers of this thread alone, as /proc names it. Not to be had everywhere: looks are then later."""
    try:
        thread = os.readlink("/proc/thread-self").rsplit("/", 1)[-1]
        with open("/proc/%s/timerslack_ns" % thread, "wb") as slack:
            slack.write(b"1")
    except Exception:
        return


def stack_of(thread):
    """(code, line, instruction) from the inside out; empty if it cannot be told."""
    return at_once(_frames(thread))


def _frames(thread):
    top = map(dict.get, starmap(sys._current_frames, ((),)), (thread,))
    return map(_WHERE, takewhile(_IS_FRAME, accumulate(chain(top, repeat("f_back", DEPTH_MAX)), getattr)))


def _state(recorder):
    """And the collections it has not told of yet."""
    return chain(map(_STATE, (recorder,)), map(list, map(_COLLECTED, (recorder,))))


def _in_collection(moment, notes, thread):
    """The moment to look lies in the latest one. Nobody can look into a collection, only right after it. (An
    odd number of notes is being read.)"""
    if len(notes) % 2:
        return False
    (start, collecting), (end, _) = notes[-2:]
    return collecting == thread and start <= moment <= end
