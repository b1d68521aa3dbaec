"""How busy the GPU is and whose fault its idle time is, in one to three sentences."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.diagnose.causes.gpu_signals import works_little
from stoker.diagnose.causes.thresholds import BUSY_FOR_BATCH_PCT
from stoker.diagnose.gpu_budget import GpuBudget, Kind, Part
from stoker.diagnose.gpu_causes import by_lead
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.places import shown
from stoker.diagnose.rank_gpus import rank_gpu
from stoker.diagnose.summary import Summary, Trainer

NOTABLE_PCT = 10.0

_WHILE = {
    "data": "waits for data",
    "env": "is in the environment",
    "infer": "calls the model without gradients",
    "h2d": "copies to the GPU",
    "forward": "calls the model",
    "loss": "is between the model's call and backward()",
    "backward": "is in backward()",
    "optim": "is in the optimizer",
    "sync": "reads from the GPU",
    "save": "is in saving",
    "gc": "is in Python's garbage collector",
    "compile": "is in torch.compile",
    "other": "runs Python code outside the model, the loader and the environment",
}
_LAUNCHING = "it waits for one small kernel after another (launching)"


@dataclass(frozen=True, slots=True)
class GpuSentence:
    text: str
    complete: bool
    """Nothing of the training thread needs to be added: the cause is said, or there is none."""


def gpu_sentence(summary: Summary, main: Trainer) -> GpuSentence | None:
    use = main.gpus.main
    if use is None:
        return None
    budget = use.budget
    if use.shared:
        return GpuSentence(f"{_taking_turns(use)} {_own_idle(summary, main, use)}".strip(), True)
    if budget.idle_pct is None:
        return _without_counters(summary, main, budget)
    if budget.idle_pct < NOTABLE_PCT:
        return GpuSentence(_spinning(summary, main) or _busy(use), True)
    cause, complete = _cause(summary, main, budget, budget.idle_pct)
    return GpuSentence(
        f"The GPU is idle {budget.idle_pct:.0f} % of the time{cause}{_little_work(budget)}", complete
    )


def _spinning(summary: Summary, main: Trainer) -> str:
    """Busy, and no work: not to be taken for a GPU that is kept fed."""
    own = rank_gpu(summary, main)
    if own is None or own.waiting_pct is None or own.waiting_pct < NOTABLE_PCT:
        return ""
    return (
        f"GPU busy {own.use.budget.busy_pct:.0f} %, but {own.waiting_pct:.0f} % of the time it spins, "
        "waiting for other ranks."
    )


def _busy(use: GpuUse) -> str:
    busy = f"GPU busy {use.budget.busy_pct:.0f} %"
    if not use.alone:
        return f"{busy}, by {use.own_processes} processes of this run together: they take turns on it."
    if works_little(use.budget.busy_pct, use.budget.real_work_pct):
        real = f"{use.budget.real_work_pct:.0f} %"
        return f"{busy}, but real work only {real}: its kernels are too small to fill it. The host keeps up."
    return f"{busy}: nothing to gain from the host side."


def _little_work(budget: GpuBudget) -> str:
    """Only where busy is much of the time: else the idle time is the thing."""
    busy, real = budget.busy_pct, budget.real_work_pct
    if not works_little(busy, real) or (busy or 0.0) < BUSY_FOR_BATCH_PCT:
        return ""
    return f" While it is busy it does little: real work is {budget.real_work_pct:.0f} %."


def _lost(budget: GpuBudget) -> list[Part]:
    kinds = (Kind.IDLE, Kind.LAUNCHING, Kind.UNKNOWN_IDLE)
    return sorted((part for part in budget.parts if part.kind in kinds), key=lambda part: -part.pct)


def _cause(summary: Summary, main: Trainer, budget: GpuBudget, idle_pct: float) -> tuple[str, bool]:
    """What follows "The GPU is idle 52 % of the time", and whether that explains it."""
    told = [part for part in _lost(budget) if part.kind is not Kind.UNKNOWN_IDLE]
    if not told or (budget.unknown_idle_pct or 0.0) > 0.5 * idle_pct:
        return f"; most of it is not explained: {budget.unknown_reason}.{_next(summary, main, told)}", False
    top, *others = told
    share = ", most of it" if top.pct > 0.5 * idle_pct else f", {top.pct:.0f} %"
    if top.kind is Kind.LAUNCHING:
        text = f": {_LAUNCHING}." if share == ", most of it" else f"{share} because {_LAUNCHING}."
    else:
        text = f"{share} while the training thread {_doing(summary, main, top.phase)}."
    return text + _next(summary, main, others), True


def _next(summary: Summary, main: Trainer, others: list[Part]) -> str:
    if not others or others[0].pct < NOTABLE_PCT:
        return ""
    second = others[0]
    if second.kind is Kind.LAUNCHING:
        return f" Another {second.pct:.0f} % is launching: it waits for one small kernel after another."
    return f" Another {second.pct:.0f} % while the thread {_doing(summary, main, second.phase)}."


def _doing(summary: Summary, main: Trainer, phase: str) -> str:
    what = _WHILE.get(phase, f"is in {phase}")
    if phase == "data" and main.loaders and not main.loaders[0].workers:
        what = "loads data itself, num_workers=0"
    lines = [line for line in main.lines if line.phase == phase and line.place.leaf]
    if lines and lines[0].pct >= main.phase_pct[phase] / 4:
        return f"{what} ({shown(lines[0].place, summary.run.info.cwd)})"
    return what


def _taking_turns(use: GpuUse) -> str:
    others = len(use.view.sharing.pids) if use.view else 0
    who = f"{others} other processes compute" if others > 1 else "another process computes"
    busy = use.budget.busy_pct
    reads = "" if busy is None else f"The GPU reads {busy:.0f} % busy, but "
    text = f"{reads}{who} on {'the GPU' if busy is None else 'it'}: they take turns, and how much of "
    return f"{text[0].upper()}{text[1:]}that is this training's cannot be told."


def _own_idle(summary: Summary, main: Trainer, use: GpuUse) -> str:
    """As measured, whatever the counters of the shared card say."""
    told = by_lead(main.phase_pct, use.lead).idle_pct if use.lead else {}
    total_pct = sum(told.values())
    if total_pct < NOTABLE_PCT:
        return ""
    doing = _doing(summary, main, max(told, key=lambda phase: told[phase]))
    return f"This training gives it nothing to do for {total_pct:.0f} % of the time, mostly while it {doing}."


def _without_counters(summary: Summary, main: Trainer, budget: GpuBudget) -> GpuSentence:
    told = budget.told_idle_pct
    top = max(budget.phases, key=lambda cause: cause.idle_pct or 0.0, default=None)
    if told is None or top is None:
        return GpuSentence("How busy the GPU is was not measured.", False)
    if told < NOTABLE_PCT:
        text = f"The GPU is left without work {told:.0f} % of the time; how busy it is was not measured."
        return GpuSentence(text, False)
    doing = _doing(summary, main, top.phase)
    text = (
        f"The GPU has nothing to do for at least {told:.0f} % of the time, mostly while the training thread"
    )
    return GpuSentence(f"{text} {doing}.", True)
