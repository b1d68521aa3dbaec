"""What `Recorder.replay` tells of the ends of stretches, for many plain ones in a row.

One by one each goes through four functions, 1.5 microseconds even in a tight loop; in one loop over local
names it takes half of that. (A tick of a small RL loop has three: CPU, 2026-11.) Plain is the end of an
env call or of a known optimizer's step in a stretch passed over, while training goes on as before. Whatever
is not, `replay` tells of as ever: `told` says how far it came. Both ways have to tell the same
(tests/unit/inside/test_retelling.py).
"""

from math import frexp
from types import MethodType

from . import wire
from .wire import BACKWARD, STARTUP, THIN, TRAIN

STOPPED_AFTER = 500
"""Steps of other optimizers after which the one that ticked counts as done."""


def told(recorder, log, first):
    """The number of the first one that was not told of."""
    thinning, steps = recorder.thinning, recorder.steps
    before = thinning.before
    if not (before and steps and thinning.active and recorder.stage is TRAIN) or recorder.usual is STARTUP:
        return first
    optimizers, rows, pending = recorder.optimizers, recorder.tick_rows, thinning.pending
    symbols, repeats = recorder.symbols, recorder.repeats
    ticking, others = recorder.tick_optimizer, recorder.others_since_tick
    alive, ticks, env_steps = recorder.alive[ticking], recorder.ticks, recorder.env_steps
    start, passed, last, tick = thinning.start, before[THIN], None, None
    try:
        for at in range(first, len(log)):
            entry = log[at]
            ends, subject, end, since, totals, waits, phase, within = entry
            if phase != THIN or within or type(subject) is not int:
                return at
            if type(ends) is MethodType:  # an optimizer's step; the end of an env call is a function
                symbol = optimizers.get(subject)
                if symbol == ticking:
                    if len(rows) >= wire.TICKS_WAITING_MAX:
                        return at
                    others, ticks = 0, ticks + 1
                    rows.append((symbol, end, None))
                    tick = entry, ticks, env_steps
                elif symbol is None or steps[symbol] >= steps[ticking]:
                    return at  # a new one, or one that may be the tick from now on
                elif others >= STOPPED_AFTER or alive() is None:
                    return at
                else:
                    others += 1
                steps[symbol] += 1
            else:
                counts = getattr(ends, "counts", None)
                if counts is None:
                    return at
                symbol = "e"
                env_steps += counts.get(subject, 1)
                recorder.env_calls += 1
                recorder.acting_s += waits
            if symbols[-1] == symbol:
                repeats[-1] += 1
            elif symbols[-1] is None and len(symbols) > 1:
                pass  # enough of their order was seen
            elif len(symbols) < wire.SEQUENCE_MAX:
                symbols.append(symbol)
                repeats.append(1)
            else:
                recorder._close_sequence()
            thin, length = totals[THIN] + end - since, frexp(end - start)[1]
            pending[length] = pending.get(length, 0.0) + thin - passed
            start, passed, last = end, thin, entry
        return len(log)
    finally:
        recorder.others_since_tick, recorder.ticks, recorder.env_steps = others, ticks, env_steps
        _stands_at(recorder, tick, last)


def _stands_at(recorder, tick, last):
    """The last tick, with the counts then, and the last end of all."""
    if tick is not None:
        entry, ticks, env_steps = tick
        recorder.tick_end, recorder.tick_totals = entry[2], _sums(entry)
        recorder.tick_counts = (ticks, recorder.samples, env_steps, recorder.counts[BACKWARD])
    if last is not None:
        thinning = recorder.thinning
        thinning.start, thinning.before = last[2], _sums(last)
        thinning.whole, thinning.first_of_row = False, True
        recorder.eval_candidate = None


def _sums(entry):
    """Those at the end."""
    _, _, end, since, totals, *_ = entry
    totals = totals.copy()
    totals[THIN] += end - since
    return totals
