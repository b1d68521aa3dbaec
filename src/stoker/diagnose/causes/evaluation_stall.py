"""SK204: evaluation takes a large part of the run. It is outside the window: its share is of the run."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK204", "evaluation stall"
_FIXES = (
    Fix("evaluate less often", "if step % 100 == 0: evaluate()", "if step % 2000 == 0: evaluate()"),
    Fix("a fixed small part of the test data each time, all of it at the end"),
    Fix("larger batches under torch.inference_mode(); or a process of its own that reads checkpoints"),
)


def find(found: Signals) -> Finding | None:
    lost = eval_frac(found)
    return finding(
        CODE,
        NAME,
        "the training stands still while it is evaluated",
        lost,
        "time of the run",
        [
            share("of training and evaluation together is evaluation", lost, "host clock"),
            number("{} s in all", found.stages_s.get("eval"), "s", "host clock"),
        ],
        "the same run without evaluation: as many ticks in less time",
        _FIXES,
    )


def eval_frac(found: Signals) -> float:
    """Of what goes on once the training has begun; start-up and warm-up come once."""
    spent = {stage: found.stages_s.get(stage, 0.0) for stage in ("train", "warm-up", "save", "eval")}
    total = sum(spent.values())
    return spent["eval"] / total if total > 0 else 0.0


CAUSE = Cause(CODE, NAME, find)
