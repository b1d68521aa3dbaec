"""SK201: a line of the user's own Python code, outside model, loader and environment."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import LINE_PCT
from stoker.diagnose.places import LineShare
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK201", "hot Python line"
_FIXES = (
    Fix(
        "one call on whole arrays in place of a loop over items",
        "total = sum(float(v) ** 2 for v in values)",
        "total = (values * values).sum()",
    ),
    Fix(
        "arrays, not lists, into tensors",
        "batch = torch.tensor([buffer[i] for i in picked])",
        "batch = torch.from_numpy(buffer[picked])  # buffer: one array, made once",
    ),
    Fix("do it less often, in another thread or process, or not at all (logging, copies, checks)"),
)


def find(found: Signals) -> Finding | None:
    line = _hottest(found)
    if line is None:
        return None
    lost = found.line_lost(line)
    where = "between the model's call and backward()" if line.phase == "loss" else "your own Python code"
    return finding(
        CODE,
        NAME,
        f"one line takes {100 * lost:.0f} % of the window: {where}",
        lost,
        found.lost_of,
        [
            share("of the training thread's time is in this line", line.pct / 100, "looks"),
            share("is in the whole phase", found.host_pct[line.phase] / 100, "host clock"),
            number("{} looks found it there", float(line.samples), "looks", "looks"),
        ],
        "comment the line out, or give it a constant: ticks/s rise by up to the ceiling",
        _FIXES,
        line.place,
    )


def _hottest(found: Signals) -> LineShare | None:
    phases = {"other"} if found.loss_is_work else {"other", "loss"}
    lines = [line for line in found.lines if line.phase in phases and line.place.leaf]
    hot = max(lines, key=found.line_lost, default=None)
    return hot if hot is not None and 100 * found.line_lost(hot) >= LINE_PCT else None


CAUSE = Cause(CODE, NAME, find)
