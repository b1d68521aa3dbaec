"""SK206: another thread of the process computes in Python, and the training thread waits for the interpreter.

Each operation of torch gives the interpreter lock back and has to get it again: from a thread that computes
in Python, after up to 5 ms. The model's own calls become longer, and look like work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import HELD_FRAC, OTHERS_CORES, OWN_LOOKS, WAITS_FRAC
from stoker.diagnose.places import MIN_SAMPLES, LineShare
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK206", "another Python thread holds the interpreter"
_TIMED = ("sync", "h2d")
"""Their lines are timed, not looked at."""
_FIXES = (
    Fix(
        "a process in place of the thread",
        "threading.Thread(target=prepare, args=(queue,)).start()",
        "multiprocessing.Process(target=prepare, args=(queue,)).start()  # or a DataLoader's workers",
    ),
    Fix("calls on whole arrays (NumPy, OpenCV, torch), which let go of the interpreter while they compute"),
    Fix(
        "where the thread must stay: hand the interpreter over sooner, before it starts",
        "",
        "sys.setswitchinterval(0.0005)  # 5 ms is the default",
    ),
)


def held_frac(found: Signals) -> float:
    """Of the window, at least: the training thread is off its core, waits for none, and is in none of the
    phases in which it may wait for something else."""
    off, others = found.off_core_frac, found.others_cores
    if off is None or others is None or others < OTHERS_CORES:
        return 0.0
    elsewhere = sum(found.host_pct[phase] for phase in _may_wait(found) - {"other"})
    own = _own_pct(found)
    held = off - (elsewhere + own) / 100
    with_late_lines = held + min(own, _late_pct(found, found.lines)) / 100
    return min(held, others) if held >= HELD_FRAC / 2 and with_late_lines >= HELD_FRAC else 0.0


def _own_pct(found: Signals) -> float:
    """Of the window, in `other`, as far as looks find it. They come when the interpreter does: waiting for it
    on the way from one call of the model to the next is time in `other` in which nothing is ever found."""
    looks = [line for line in found.lines if line.phase not in _TIMED]
    every = sum(line.samples for line in looks)
    own = sum(line.samples for line in looks if line.phase == "other")
    if every < OWN_LOOKS or not found.looks_fit:
        return found.host_pct["other"]
    looked_at_pct = 100 - sum(found.host_pct[phase] for phase in _TIMED)
    own = max(own, MIN_SAMPLES - 1)  # fewer in a phase are not told of
    at_most = (own + 2 * math.sqrt(own)) / every
    return min(found.host_pct["other"], looked_at_pct * at_most)


def _may_wait(found: Signals) -> frozenset[str]:
    """For something else than the interpreter; the rest are the model's calls."""
    return frozenset({*found.may_wait, "other", *([] if found.loss_is_work else ["loss"])})


def leads_to_the_model(found: Signals, line: LineShare) -> bool:
    """A line of the user's own, outside of the model's calls."""
    return line.phase == "other" and line.place.leaf in found.step_lines


def held_in_own_code_frac(found: Signals) -> float:
    """Of the window, beside that: the lines that lead to the model are found late, after the call they made,
    and look hot. Other lines may sleep, read, or compute in C: nobody knows that they wait for it."""
    held = held_frac(found)
    late = min(_own_pct(found), _late_pct(found, found.lines)) / 100
    return max(0.0, min(late, (found.others_cores or 0.0) - held)) if held else 0.0


def held_in_lines_frac(found: Signals, lines: Sequence[LineShare]) -> float:
    """Of the window, the part of that which is in these."""
    late_pct = _late_pct(found, found.lines)
    part = min(1.0, _late_pct(found, lines) / late_pct) if late_pct > 0 else 0.0
    return held_in_own_code_frac(found) * part


def _late_pct(found: Signals, lines: Sequence[LineShare]) -> float:
    own = [line for line in lines if leads_to_the_model(found, line)]
    return sum(line.pct for line in own if line.computes == 0 and line.waits_frac < WAITS_FRAC)


def held_in_calls_pct(found: Signals, phase: str) -> float:
    """Of the window, in one phase of the model: as much of it as of all that it may be held in."""
    may_wait = _may_wait(found)
    calls_pct = sum(pct for name, pct in found.host_pct.items() if name not in may_wait)
    return 100 * held_frac(found) * found.host_pct[phase] / calls_pct if calls_pct > 0 else 0.0


def find(found: Signals) -> Finding | None:
    held = held_frac(found) + held_in_own_code_frac(found)
    return finding(
        CODE,
        NAME,
        "the model's calls wait for the interpreter, which another thread holds",
        found.lost_of_waiting(held),
        found.lost_of if found.gpu else "time inside the model's calls",
        [
            share(
                "of the window, at least, the training thread waits, and for nothing else that is known",
                held,
                "schedstat, looks",
            ),
            number(
                "{} cores are used by other threads that run Python", found.others_cores, "cores", "looks"
            ),
            number(
                "if every tick needs what that thread makes, at most {} times as fast with it as a process",
                _its_own_pace(found, held),
                "times",
                "looks",
            ),
        ],
        "the same run without that thread, or with it as a process",
        _FIXES,
        found.others_place,
    )


def _its_own_pace(found: Signals, held: float) -> float | None:
    """What it computes for a tick takes as long elsewhere; None where that is no limit."""
    others = found.others_cores or 0.0
    return 1 / others if held > 0 and 1 - held < others <= 1 else None


CAUSE = Cause(CODE, NAME, find)
