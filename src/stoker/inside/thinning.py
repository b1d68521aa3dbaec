"""Where ticks are so short that the hooks would cost too much, only some stretches are looked at closely.

A stretch runs from the end of one env call or optimizer step to the end of the next. In one that is passed
over, model, backward and optimizer are not told apart: their time is `THIN`. Env calls, data, copies, waits,
saving, collections and the length of every tick are recorded as ever. Which stretches are passed over is
drawn at random. Once a second the THIN time is given to the phases in the shares found in stretches of about
the same length that were looked at closely: so a rollout among short updates keeps its own shares. Where all
known ones are much shorter, the rest is taken for `other`: a pause, not a larger model.

Some are looked at in a row. The hooks' own code lies far away after a pause and takes several times as long,
which counts as `other` (SB3's PPO: 17 % in place of 13 %): of the first in a row the shares are not taken.
Nor are those of a deep window: there opening and closing the profiler is `other`, 0.6 s on an H200 (2026-11;
the model's phases of a window of 2.5 s, half of it behind such a one, read as 121 %).
"""

import random
from math import frexp

from .originals import perf_counter
from .wire import BACKWARD, DEEP, EVAL, FORWARD, INFER, LOSS, OPTIM, OTHER, THIN

SHARE_MAX = 0.0002
"""Of the wall time, for telling the phases apart."""
CALL_S = 12e-6
"""One phase entered and left, between calls that empty the caches: measured in a loop of 20 ms a tick (CPU,
2026-11). In one of 2 ms it is a fourth of that, but there as few stretches are looked at as may be anyway."""
CLOSELY_MIN = 1 / 24
"""1/64 would save some 0.05 % of the time; `other` of a training of 1.4 ms a tick then read 17 in place of
14 % (CPU, 2026-11): the rarer, the colder the hooks."""
CLOSELY_MAX = 0.7
IN_A_ROW = 4
TICKS_MIN = 200
REMEMBERED_S = 10.0
TOLD_TOGETHER = 64
NEAR = 1
"""Powers of two by which stretches of about the same length differ."""
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
        "row_left",
        "more",
        "first_of_row",
        "start",
        "before",
        "whole",
        "closely",
        "pending",
        "settled_infer_s",
        "want_settle",
        "holders",
        "reviewed",
    )

    def __init__(self, recorder):
        self.recorder = recorder
        self.active = False
        self.closely_frac = 1.0
        self.twice_mean = 1.0
        self.drawn = 0
        self.row_left = 0
        self.more = 0  # to pass over after those that are told of next
        self.first_of_row = False
        self.start = 0.0
        self.before = None
        self.whole = False
        self.closely = {}
        self.pending = {}
        self.settled_infer_s = 0.0
        self.want_settle = False
        self.holders = set()
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
        entered_s = CALL_S * (models / frac + others)  # a model's call counts only where looked at closely
        cost = entered_s / elapsed_s
        wanted = min(1.0, max(CLOSELY_MIN, SHARE_MAX / cost)) if cost > 0 else 1.0
        self.closely_frac = 1.0 if wanted > CLOSELY_MAX else wanted
        self.twice_mean = 2 * IN_A_ROW * (1 / self.closely_frac - 1) + 1
        if self.closely_frac > 2 * frac:  # ticks became long: what was drawn for short ones would take ages
            self.more = 0
            recorder.left = min(recorder.left, 1)
        self.active = self.active or self.closely_frac < 1.0
        recorder.deferring = self.active and not self.holders

    # -- the training thread ---------------------------------------------------------------------------

    def turn(self):
        """A stretch has ended: the last of those passed over that are told of together, or one that was
        looked at closely."""
        recorder = self.recorder
        if recorder.left == 0 and recorder.phase == THIN and not self.more:
            recorder.phase = OTHER
            recorder.modeled = False
            self.row_left = IN_A_ROW
        self.row_left -= 1
        if self.row_left < 0:
            if not self.more:
                self.drawn = drawn = (self.drawn + 1) % len(_CHANCES)
                self.more = int(_CHANCES[drawn] * self.twice_mean)
            recorder.left = skip = min(self.more, TOLD_TOGETHER)
            self.more -= skip
            if skip:
                recorder.phase = THIN
                recorder.after_model = False
        if len(recorder.log) >= TOLD_TOGETHER or self.want_settle:
            recorder.replay()
            if not recorder.log:
                self.settle()

    def stretch_ends(self):
        """As the log tells it; the sums are those of its end."""
        recorder = self.recorder
        phase, totals, before = recorder.phase, recorder.totals, self.before
        if phase != THIN and phase != OTHER or recorder.within:
            return  # inside something larger: the stretch goes on
        start, self.start = self.start, recorder.since
        self.before = totals if recorder.replaying else totals.copy()  # those of now move on
        if before is not None:
            length = frexp(recorder.since - start)[1]
            if phase == THIN:
                self.pending[length] = self.pending.get(length, 0.0) + totals[THIN] - before[THIN]
            elif not (self.whole or self.first_of_row or recorder.stage is DEEP):
                self._looked_at(length, before, totals)
        self.whole = False
        self.first_of_row = phase == THIN

    def _looked_at(self, length, before, totals):
        shares = self.closely.get(length)
        if shares is None:
            shares = self.closely[length] = [0.0] * len(SPLIT)
        for index, phase in enumerate(SPLIT):
            shares[index] += totals[phase] - before[phase]

    def look_closely(self):
        """What begins now may be no training: it is looked at as a whole."""
        recorder = self.recorder
        recorder.opened = False
        if not self.active or recorder.replaying:
            return
        recorder.replay()
        if recorder.phase == THIN:
            if recorder.collected:
                recorder.read_collected()
            now = perf_counter()
            recorder.totals[THIN] += now - recorder.since
            recorder.since = now
            if self.before is not None:
                length = frexp(now - self.start)[1]
                spent = recorder.totals[THIN] - self.before[THIN]
                self.pending[length] = self.pending.get(length, 0.0) + spent
            recorder.phase = OTHER
            recorder.within = 0
            recorder.modeled = False
        self.before, self.start = recorder.totals.copy(), recorder.since
        self.whole = True
        recorder.left = self.more = 0

    def hold(self, holder):
        """Until the holder lets go, everything is looked at closely, and told of at once."""
        self.look_closely()
        self.holders.add(holder)
        self.recorder.deferring = False

    def let_go(self, holder):
        self.look_closely()
        self.holders.discard(holder)
        self.recorder.deferring = self.active and not self.holders

    def settle(self, last=False):
        """Give the time passed over to the phases; the pulse sees the sums before or after, not half-way. At
        the end those of the last tick get their part, too: there the training's window ends."""
        self.want_settle = False
        if not self.pending:
            return
        totals = self.recorder.totals.copy()
        if self.before is not None:
            self.before = self.before.copy()
        for length, seconds in list(self.pending.items()):
            shares = self._shares(length)
            if shares is None:
                continue
            del self.pending[length]
            self._give(totals, seconds, shares)
            if self.before is not None:
                self._give(self.before, seconds, shares)
            self.settled_infer_s += seconds * shares[1]
            if last and self.recorder.tick_totals is not None:
                self.recorder.tick_totals = ended = self.recorder.tick_totals.copy()
                self._give(ended, max(0.0, min(seconds, ended[THIN])), shares)
        self.recorder.totals, self.recorder.kept_since = totals, None

    def _give(self, totals, seconds, shares):
        totals[THIN] -= seconds
        for phase, share in zip(SPLIT, shares):
            totals[phase] += seconds * share

    def spread(self, totals):
        """The sums of the named phases, where some THIN time is not given to them yet; asked by the pulse.
        In the proportion of the sums themselves, with evaluations in them, only until anything is known."""
        named, thin_s = list(totals[:THIN]), totals[THIN]
        if thin_s > 0.0:
            known = self.known()
            if not sum(known):
                evaluated = any(stage is EVAL for stage, _ in list(self.recorder.marks))
                known = [0.0 if evaluated and phase == INFER else named[phase] for phase in SPLIT]
            known_s = sum(known)
            for phase, spent in zip(SPLIT, known):
                named[phase] += thin_s * (spent / known_s if known_s > 0 else phase == OTHER)
        return named

    def known(self):
        """Seconds by phase of what was looked at closely lately, of all lengths."""
        spent = [max(0.0, sum(shares)) for shares in zip(*list(self.closely.values()))]
        return spent or [0.0] * len(SPLIT)

    def _shares(self, length):
        """Of the stretches nearest in length; None where none was looked at closely yet."""
        known = [key for key, spent in self.closely.items() if sum(spent) > 0.0]
        if not known:
            return None
        nearest = min(known, key=lambda key: abs(key - length))
        spent = [max(0.0, value) for value in self.closely[nearest]]
        total = sum(spent)
        if total > REMEMBERED_S:  # a loop may change
            self.closely[nearest] = [value / 2 for value in spent]
        usual = 2.0 ** (nearest - length) if length - nearest > NEAR else 1.0
        shares = [usual * value / total for value in spent]
        shares[SPLIT.index(OTHER)] += 1.0 - usual
        return shares
