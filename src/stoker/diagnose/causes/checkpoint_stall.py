"""SK203: the training stands still while a checkpoint is written."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, less_often, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK203", "checkpoint stall"
_BEFORE, _AFTER = (f"if step % {often} == 0: torch.save(state, path)" for often in (50, 2000))
_OTHER_FIXES = (
    Fix(
        "copy to host memory, write in a thread",
        "torch.save(state, path)",
        "copy = {k: v.detach().cpu().clone() for k, v in state.items()}\n"
        "threading.Thread(target=torch.save, args=(copy, path)).start()",
    ),
    Fix("torch.distributed.checkpoint.async_save"),
)


def find(found: Signals) -> Finding | None:
    line = found.top_line("save")
    beside = found.beside_saving()
    lost = found.lost("save") + sum(map(found.line_lost, beside))
    return finding(
        CODE,
        NAME,
        "the training waits while it is saved",
        lost,
        found.lost_of,
        [
            share("of the training thread's time is in saving", found.host_pct["save"] / 100, "host clock"),
            share("is in the lines beside it", sum(one.pct for one in beside) / 100 or None, "looks"),
            number("{} s in all", found.stages_s.get("save"), "s", "host clock"),
        ],
        "save ten times less often: the long ticks are gone",
        (less_often("save", lost, _BEFORE, _AFTER), *_OTHER_FIXES),
        line.place if line else None,
    )


CAUSE = Cause(CODE, NAME, find)
