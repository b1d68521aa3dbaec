"""SK204: evaluation takes a large part of the run. It is outside the window: its share is of the run. One of
tensors in memory, which nothing marks, is told from looks."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, less_often, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    ACTS_FRAC,
    ALONE_FRAC,
    EVALUATED_MIN,
    IN_STEP_FRAC,
    MODEL_FRAC,
    ONE_ROW_FRAC,
    SELDOM_FRAC,
)
from stoker.diagnose.own_evaluations import OwnEvaluation
from stoker.diagnose.window import begun_frac
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK204", "evaluation stall"
_BEFORE, _AFTER = (f"if step % {often} == 0: evaluate()" for often in (100, 2000))
_OTHER_FIXES = (
    Fix("a fixed small part of the test data each time, all of it at the end"),
    Fix("larger batches under torch.inference_mode(); or a process of its own that reads checkpoints"),
)


def find(found: Signals) -> Finding | None:
    own = found.own_evaluation
    lost = begun_frac(found.stages_s, "eval")
    if own is not None and _evaluates(own, found):
        return _in_memory(own, lost)
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
        (less_often("evaluate", lost, _BEFORE, _AFTER), *_OTHER_FIXES),
        found.evaluated_at,
    )


def evaluated_frac(found: Signals) -> float:
    """Of the calls without gradients: those of an evaluation that is told here."""
    own = found.own_evaluation
    return own.infer_frac if own is not None and _evaluates(own, found) else 0.0


def _evaluates(own: OwnEvaluation, found: Signals) -> bool:
    """Beside an environment, or asked row by row, it may be what acts, unless that is known to be elsewhere.
    With more going on than the model, it acts in an environment of its own."""
    if own.asked < EVALUATED_MIN:
        return False
    if found.simulates or (found.one_row_frac or 0.0) >= ONE_ROW_FRAC:
        return own.acts_elsewhere >= max(1, ACTS_FRAC * own.asked)
    return own.model_frac >= MODEL_FRAC and not _is_of_the_step(own)


def _is_of_the_step(own: OwnEvaluation) -> bool:
    """Asked in every tick: labels a model makes for itself. Where another one is asked, too, that may be the
    one in every tick."""
    if own.inline:
        return own.ticks_frac is None or own.ticks_frac > SELDOM_FRAC
    alone = own.infer_frac >= ALONE_FRAC and not own.asked_elsewhere
    return alone and (own.ticks_frac or 0.0) >= IN_STEP_FRAC


def _in_memory(own: OwnEvaluation, apart: float) -> Finding | None:
    """`apart`: what was seen as evaluation anyway, outside of the window that the looks are of."""
    lost = 1 - (1 - apart) * (1 - own.frac)
    return finding(
        CODE,
        NAME,
        "the training stands still while its model is asked in eval mode, without gradients",
        lost,
        "time of the run",
        [
            share("of the window is here or in what is called here, and trains nothing", own.frac, "looks"),
            number("{} looks found it there", float(own.looks), "looks", "looks"),
            number("{} times the model was seen there in eval mode", float(own.asked), "calls", "looks"),
            share("of training and evaluation together is evaluation elsewhere", apart or None, "host clock"),
        ],
        "the same run without it: as many ticks in less time. (If it is no evaluation but a rollout, or text "
        "that is generated: larger batches of it, or a process of its own)",
        (less_often("evaluate", lost, _BEFORE, _AFTER), *_OTHER_FIXES),
        own.site,
    )


CAUSE = Cause(CODE, NAME, find)
