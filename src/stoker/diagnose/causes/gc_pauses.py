"""SK202: Python's garbage collector walks many objects again and again."""

from __future__ import annotations

from dataclasses import replace

from stoker.diagnose.causes.cause import Cause, finding, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import GC_LINE_FRAC, GC_ONE_LINE_FRAC
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK202", "garbage collector pauses"
_FREEZE = Fix(
    "keep what lives for ever out of its sight, once it is made",
    "dataset = load_everything()",
    "dataset = load_everything()\ngc.collect(); gc.freeze()",
)
_FIXES = (
    _FREEZE,
    Fix("collect when it suits you", "", "gc.disable()\n…\nif step % 1000 == 0: gc.collect()"),
    Fix("fewer objects: one array in place of a million lists and dicts"),
)


_ONE_LINE_FIXES = (
    replace(_FREEZE, text=f"a gc.collect() in that line: take it out; else {_FREEZE.text}"),
    *_FIXES[1:],
)


def find(found: Signals) -> Finding | None:
    line = found.top_line("gc")
    part = line.pct / found.host_pct["gc"] if line and found.host_pct["gc"] else 0.0
    return finding(
        CODE,
        NAME,
        "Python's garbage collector stops the training thread",
        found.lost("gc"),
        found.lost_of,
        [
            share(
                "of the training thread's time is in the collector",
                found.host_pct["gc"] / 100,
                "gc.callbacks",
            ),
            share("of that begins in one line", part, "looks") if part >= GC_LINE_FRAC else None,
        ],
        "gc.disable() for a short run: ticks/s rise by up to the ceiling",
        _ONE_LINE_FIXES if part >= GC_ONE_LINE_FRAC else _FIXES,
        line.place if line and part >= GC_LINE_FRAC else None,
    )


CAUSE = Cause(CODE, NAME, find)
