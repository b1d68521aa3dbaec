"""SK202: Python's garbage collector walks many objects again and again."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, share
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK202", "garbage collector pauses"
_FIXES = (
    Fix(
        "keep what lives for ever out of its sight, once it is made",
        "dataset = load_everything()",
        "dataset = load_everything()\ngc.collect(); gc.freeze()",
    ),
    Fix("collect when it suits you", "", "gc.disable()\n…\nif step % 1000 == 0: gc.collect()"),
    Fix("fewer objects: one array in place of a million lists and dicts"),
    Fix("gc.collect() in the loop: take it out"),
)


def find(found: Signals) -> Finding | None:
    line = found.top_line("gc")
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
            )
        ],
        "gc.disable() for a short run: ticks/s rise by up to the ceiling",
        _FIXES,
        line.place if line else None,
    )


CAUSE = Cause(CODE, NAME, find)
