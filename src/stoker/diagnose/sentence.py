"""The answer in one to three sentences, from the figures alone."""

from __future__ import annotations

from stoker.diagnose.causes.arrivals import Late, arrivals
from stoker.diagnose.causes.thresholds import CORE_WAIT_FRAC
from stoker.diagnose.failure import culprit
from stoker.diagnose.gpu_sentence import gpu_sentence
from stoker.diagnose.host import core_wait_frac
from stoker.diagnose.labels import figure
from stoker.diagnose.loading import demand_per_s
from stoker.diagnose.places import shown
from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.tick_kinds import TickKind
from stoker.diagnose.window import begun_frac

NOTABLE_PCT = 10.0
LEADING_PCT = 20.0
"""From here on a wait is the first thing to say, though the model may take more."""

_WAITS = {
    "data": "waiting for data",
    "env": "the environment",
    "other": "Python code outside the model, the loader and the environment",
    "sync": "waiting for the device to answer",
    "h2d": "copies to the device",
    "gc": "Python's garbage collector",
    "compile": "torch.compile",
    "save": "saving",
    "loss": "code between the model's call and backward(): the loss, or your own, such as a simulator",
}


def sentence(summary: Summary) -> str:
    main = summary.main
    if main is None:
        return _nothing_inside(summary)
    if not main.window.content.ticks:
        return "No optimizer step was seen: there is no training step to account for."
    gpu = gpu_sentence(summary, main)
    if waits := _waits_for_ranks(summary, main):
        texts = [waits, *([gpu.text] if gpu else [])]
    elif main.tick_kind is TickKind.ENV_CALL:
        texts = [_env_steps_only(main), *([gpu.text] if gpu else [])]
    elif gpu is not None and gpu.complete:
        texts = [gpu.text]
    else:
        texts = [*([gpu.text] if gpu else []), _training(summary, main)]
    return " ".join([*texts, *stage_findings(main), *_without_core(summary, main)])


def _waits_for_ranks(summary: Summary, main: Trainer) -> str:
    """A rank that waits in backward for a later one seems to compute: that is to be said first."""
    met = arrivals(summary)
    own = next((one for one in met.ranks if one.rank == main.record.rank), None) if met else None
    if met is None or own is None or met.late is Late.NOBODY or 100 * own.waits_frac < NOTABLE_PCT:
        return ""
    late = f"rank {met.late_rank}" if met.late is Late.ONE else "ranks that are late in turns"
    why = f", late by {met.why} ({met.phase})" if met.why and met.phase else ""
    waits_pct = 100 * own.waits_frac
    model_pct = max(0.0, main.compute_pct - waits_pct)
    return (
        f"Rank {own.rank} waits {waits_pct:.0f} % of the training time in backward for {late}{why}. "
        f"The model takes {model_pct:.0f} %."
    )


def stage_findings(main: Trainer) -> list[str]:
    """Evaluation and saving are outside the budget of training: a share that matters is said by itself."""
    return [
        f"{what} takes {100 * begun_frac(main.stages_s, stage):.0f} % of the time since training began."
        for stage, what in (("eval", "Evaluation"), ("save", "Saving"))
        if 100 * begun_frac(main.stages_s, stage) >= NOTABLE_PCT
    ]


def _without_core(summary: Summary, main: Trainer) -> list[str]:
    """It makes all phases longer alike, so that none of them shows it."""
    waited = core_wait_frac(summary.run.host, main.record.pid, *main.window.span)
    if waited is None or waited < CORE_WAIT_FRAC:
        return []
    return [f"For {100 * waited:.0f} % of that time its thread was ready to run and had no core."]


def _nothing_inside(summary: Summary) -> str:
    run = summary.run
    if run.info.attached_pid:
        return "Seen from outside only: which line or phase takes the time cannot be told this way."
    failed = culprit(run.processes)
    if failed is not None and failed.raised is not None:
        return f"It ended with {failed.raised.type} before any training was seen."
    if run.host.isolated:
        flags = run.host.isolated[0].flags
        return f"Python was started with {flags}, which shuts Stoker out: only the outside view was recorded."
    if any(process.torch for process in run.processes):
        return (
            "torch was imported, but no optimizer stepped, no gradient was computed, no DataLoader was read "
            "and no environment ran: there is no training to account for."
        )
    return "No PyTorch training was seen in this command."


def _env_steps_only(main: Trainer) -> str:
    content = main.window.content
    text = (
        f"No optimizer step was seen. The environment made {content.env_steps:,} steps and took "
        f"{main.phase_pct['env']:.0f} % of the time"
    )
    infer = main.phase_pct["infer"]
    return f"{text}, the model {infer:.0f} %." if infer >= 1 else f"{text}."


def _training(summary: Summary, main: Trainer) -> str:
    waits = sorted(((pct, name) for name, pct in _waits(main).items()), reverse=True)
    (top_pct, top), (second_pct, second) = waits[:2]
    model = _model(main)
    if top_pct < NOTABLE_PCT:
        return f"{model} Nothing else takes more than {max(top_pct, 1):.0f} %."
    wait = _wait(summary, main, top)
    if top_pct < LEADING_PCT:
        return f"{model} {top_pct:.0f} % goes to {wait}."
    text = f"{top_pct:.0f} % of the training time goes to {wait}."
    if second_pct >= NOTABLE_PCT:
        text += f" Another {second_pct:.0f} % goes to {_WAITS[second]}."
    return f"{text} {_model(main, first=False)}"


def _waits(main: Trainer) -> dict[str, float]:
    """A loss that takes longer than the model and its backward pass is hardly a loss: then it is told."""
    model_pct = sum(main.phase_pct[name] for name in ("infer", "forward", "backward"))
    loss_is_work = main.phase_pct["loss"] <= model_pct
    return {n: p for n, p in main.phase_pct.items() if n in _WAITS and not (n == "loss" and loss_is_work)}


def _model(main: Trainer, *, first: bool = True) -> str:
    """Learning and acting are different work: where both are notable, both are named."""
    if main.named_step and main.compute_pct < 1:
        return "No work of a model is told apart from it."
    of = " of the training time" if first else ""
    infer = main.phase_pct["infer"]
    compute_pct = main.compute_pct - _waits(main).get("loss", 0.0)
    text = f"The model takes {compute_pct:.0f} %{of}"
    if infer < NOTABLE_PCT:
        return f"{text}."
    kind = "acting" if main.acting_pct > infer / 2 else "without gradients"
    return f"{text}: {compute_pct - infer:.0f} % learning, {infer:.0f} % {kind}."


def _wait(summary: Summary, main: Trainer, phase: str) -> str:
    what = _WAITS[phase]
    if phase == "data":
        return _data(main)
    if phase == "env" and main.throughput.env_steps_per_s:
        per_s = main.throughput.env_steps_per_s
        return f"{what} ({per_s:{',.0f' if per_s >= 1000 else '.3g'}} env steps/s)"
    lines = [line for line in main.lines if line.phase == phase and line.place.leaf]
    if lines and lines[0].pct >= main.phase_pct[phase] / 4:
        share = "most of it in" if lines[0].pct > main.phase_pct[phase] / 2 else f"{lines[0].pct:.0f} % in"
        return f"{what}, {share} {shown(lines[0].place, summary.run.info.cwd)}"
    return what


def _data(main: Trainer) -> str:
    what = _WAITS["data"]
    if not main.loaders:
        return what
    view, demand = main.loaders[0], demand_per_s(main.window.content)
    if view.workers == 0:
        return "loading data in the training thread itself (num_workers=0)"
    if view.supply_per_s and demand and view.supply_per_s < demand:
        workers = f"{view.workers} worker" + ("s" if view.workers > 1 else "")
        return (
            f"{what}: {workers} can deliver {figure(view.supply_per_s)} batches/s, "
            f"the training could take {figure(demand)}"
        )
    return what
