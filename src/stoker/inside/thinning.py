"""Where ticks are so short that the hooks would cost too much, only some stretches are looked at closely.

A stretch runs from the end of one env call or optimizer step to the end of the next. In one that is passed
over, model, backward and optimizer are not told apart: their time is `THIN`. Env calls, data, copies, waits,
saving, collections and the length of every tick are recorded as ever. Which stretches are passed over is
drawn at random. Once a second the THIN time is given to the phases in the shares found in stretches of about
the same length that were looked at closely: so a rollout among short updates keeps its own shares.
"""

import random
from math import frexp
from time import perf_counter

from .wire import BACKWARD, EVAL, FORWARD, INFER, LOSS, OPTIM, OTHER, THIN

SHARE_MAX = 0.003
"""Of the wall time, for telling the phases apart."""
CALL_S = 2.5e-6
"""One phase entered and left, between calls that empty the caches (measured, 2026-11)."""
CLOSELY_MIN = 1 / 12
CLOSELY_MAX = 0.7
TICKS_MIN = 200
REMEMBERED_S = 10.0
SPLIT = (OTHER, INFER, FORWARD, LOSS, BACKWARD, OPTIM)

_random = random.Random(0)  # our own: the script's random numbers are the script's
_CHANCES = tuple(_random.random() for _ in range(1021))


class Thinning:
    __slots__ = (
        "recorder",
        "active",
        "closely_frac",
        "twice_mean",
        "drawn",
        "skip",
        "start",
        "at_start",
        "thin_at_start",
        "whole",
        "closely",
        "pending",
        "settled_infer_s",
        "want_settle",
        "held",
        "reviewed",
    )

    def __init__(self, recorder):
        self.recorder = recorder
        self.active = False
        self.closely_frac = 1.0
        self.twice_mean = 1.0
        self.drawn = 0
        self.skip = 0
        self.start = 0.0
        self.at_start = None
        self.thin_at_start = 0.0
        self.whole = False
        self.closely = {}
        self.pending = {}
        self.settled_infer_s = 0.0
        self.want_settle = False
        self.held = False
        self.reviewed = None

    # -- the pulse, once a second ----------------------------------------------------------------------

    def review(self):
        """How many stretches can be afforded, from what was entered lately while looking closely."""
        recorder = self.recorder
        self.want_settle = self.active
        counts, frac = recorder.counts, self.closely_frac
        entered = counts[INFER] + counts[FORWARD], counts[BACKWARD] + counts[OPTIM]
        now = (perf_counter(), *entered, recorder.ticks)
        before, self.reviewed = self.reviewed, now
        if before is None or recorder.ticks < TICKS_MIN or now[3] == before[3]:
            return
        elapsed_s, models, others, _ = (late - early for late, early in zip(now, before))
        cost = (
            CALL_S * (models / frac + others) / elapsed_s
        )  # models are counted only where looked at closely
        wanted = min(1.0, max(CLOSELY_MIN, SHARE_MAX / cost)) if cost > 0 else 1.0
        self.closely_frac = 1.0 if wanted > CLOSELY_MAX else wanted
        self.twice_mean = 2 / self.closely_frac - 1
        self.active = self.active or self.closely_frac < 1.0

    # -- the training thread ---------------------------------------------------------------------------

    def stretch_ends(self):
        """Told of at once where it was looked at closely, else some time after (`Recorder.replay`)."""
        recorder = self.recorder
        phase = recorder.phase
        if phase != THIN and phase != OTHER or recorder.within:
            return  # inside something larger: the stretch goes on
        length = frexp(recorder.since - self.start)[1]
        if phase == THIN:
            self._passed_over(length)
            self.start, self.thin_at_start = recorder.since, recorder.totals[THIN]
        else:
            self._looked_at(length)
            self.begin_stretch()

    def begin_stretch(self):
        """The next ones are passed over, or the next one is looked at closely."""
        recorder = self.recorder
        if self.want_settle:
            self.settle()
        self.start = recorder.since
        if self.skip > 0 and not self.held and recorder.stage is not EVAL:
            recorder.phase = THIN
            recorder.left = self.skip
            recorder.after_model = False
            recorder.pending_infer_s = 0.0
            self.thin_at_start = recorder.totals[THIN]
        else:
            recorder.phase = OTHER
            self.at_start = recorder.totals.copy()

    def _passed_over(self, length):
        pending = self.pending
        spent = self.recorder.totals[THIN] - self.thin_at_start
        pending[length] = pending.get(length, 0.0) + spent
        self.skip -= 1

    def _looked_at(self, length):
        """Notes what it was spent on, and draws how many are passed over now."""
        before, totals = self.at_start, self.recorder.totals
        if before is not None and not self.whole:
            shares = self.closely.get(length)
            if shares is None:
                shares = self.closely[length] = [0.0] * len(SPLIT)
            for index, phase in enumerate(SPLIT):
                shares[index] += totals[phase] - before[phase]
        self.whole = False
        self.drawn = drawn = (self.drawn + 1) % len(_CHANCES)
        self.skip = int(_CHANCES[drawn] * self.twice_mean)

    def look_closely(self):
        """What begins now may be no training: it is looked at as a whole."""
        recorder = self.recorder
        if not self.active or recorder.replaying:
            return
        recorder.replay()
        if recorder.phase == THIN:
            now = perf_counter()
            recorder.totals[THIN] += now - recorder.since
            recorder.since = now
            self._passed_over(frexp(now - self.start)[1])
            recorder.phase = OTHER
            recorder.within = 0
        self.whole = True
        self.skip = 0

    def hold(self, held):
        """While held, everything is looked at closely."""
        self.look_closely()
        self.held = held

    def settle(self):
        """Give the time passed over to the phases."""
        self.want_settle = False
        totals = self.recorder.totals
        for length, seconds in list(self.pending.items()):
            shares = self._shares(length)
            if shares is None:
                continue
            del self.pending[length]
            totals[THIN] -= seconds
            for phase, share in zip(SPLIT, shares):
                totals[phase] += seconds * share
            self.settled_infer_s += seconds * shares[1]

    def _shares(self, length):
        """Of the stretches nearest in length; None where none was looked at closely yet."""
        known = [key for key, spent in self.closely.items() if sum(spent) > 0.0]
        if not known:
            return None
        nearest = min(known, key=lambda key: abs(key - length))
        spent = self.closely[nearest]
        total = sum(spent)
        if total > REMEMBERED_S:  # a loop may change
            self.closely[nearest] = [value / 2 for value in spent]
        return [max(0.0, value) / total for value in spent]


def spread(totals):
    """The sums of the named phases, where some THIN time is not given to them yet."""
    named, thin_s = list(totals[:THIN]), totals[THIN]
    known_s = sum(named[phase] for phase in SPLIT)
    if thin_s > 0.0:
        for phase in SPLIT:
            named[phase] += thin_s * (named[phase] / known_s if known_s > 0 else phase == OTHER)
    return named
