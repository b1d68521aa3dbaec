"""The answer in one or two sentences, from the figures alone."""

from __future__ import annotations

from stoker.diagnose.loading import demand_per_s
from stoker.diagnose.places import shown
from stoker.diagnose.summary import Summary, Trainer

NOTABLE_PCT = 10.0

_WAITS = {
    "data": "waits for data",
    "env": "is spent in the environment",
    "other": "is Python code outside the model, the loader and the environment",
    "sync": "waits for the device to answer",
    "h2d": "copies to the device",
    "gc": "is Python's garbage collector",
    "compile": "is torch.compile",
    "save": "is torch.save",
    "loss": "passes between the model's call and backward() (the loss, or code of yours such as a simulator)",
}


def sentence(summary: Summary) -> str:
    main = summary.main
    if main is None:
        return _nothing_inside(summary)
    if not main.window.content.ticks:
        return _no_ticks(main)
    return _training(summary, main)


def _nothing_inside(summary: Summary) -> str:
    if summary.run.info.attached_pid:
        return "Seen from outside only: which line or phase takes the time cannot be told this way."
    if summary.run.host.isolated:
        flags = summary.run.host.isolated[0].flags
        return f"Python was started with {flags}, which shuts Stoker out: only the outside view was recorded."
    raised = next((p.raised for p in summary.run.processes if p.raised), None)
    if raised:
        return f"It ended with {raised.type} before any training was seen."
    return "No PyTorch training was seen in this command: no optimizer, loader or environment was used."


def _no_ticks(main: Trainer) -> str:
    content = main.window.content
    if content.env_steps:
        return (
            f"No optimizer step was seen. The environment made {content.env_steps:,} steps and took "
            f"{main.phase_pct['env']:.0f} % of the time."
        )
    return "No optimizer step was seen: there is no training step to account for."


def _training(summary: Summary, main: Trainer) -> str:
    waits = sorted(((pct, name) for name, pct in _waits(main).items()), reverse=True)
    top_pct, top = waits[0]
    if top_pct < NOTABLE_PCT:
        return (
            f"The training thread is at work {main.compute_pct:.0f} % of the time (model, loss, backward, "
            f"optimizer); nothing else takes more than {top_pct:.0f} %."
        )
    text = f"{top_pct:.0f} % of the training time {_WAITS[top]}"
    text += _detail(summary, main, top) + "."
    second_pct, second = waits[1]
    if second_pct >= NOTABLE_PCT:
        text += f" Another {second_pct:.0f} % {_WAITS[second]}."
    compute_pct = main.compute_pct - (main.phase_pct["loss"] if "loss" in _waits(main) else 0.0)
    return text + f" The model, backward and optimizer take {compute_pct:.0f} %."


def _waits(main: Trainer) -> dict[str, float]:
    """A loss that takes longer than the model and its backward pass is hardly a loss: then it is told."""
    model_pct = sum(main.phase_pct[name] for name in ("infer", "forward", "backward"))
    loss_is_work = main.phase_pct["loss"] <= model_pct
    return {n: p for n, p in main.phase_pct.items() if n in _WAITS and not (n == "loss" and loss_is_work)}


def _detail(summary: Summary, main: Trainer, phase: str) -> str:
    if phase == "data":
        return _data_detail(main)
    if phase == "env" and main.throughput.env_steps_per_s:
        return f": {main.throughput.env_steps_per_s:.0f} env steps/s"
    lines = [line for line in main.lines if line.phase == phase and line.place.leaf]
    if lines and lines[0].pct >= main.phase_pct[phase] / 4:
        return f", most of it in {shown(lines[0].place, summary.run.info.cwd)}"
    return ""


def _data_detail(main: Trainer) -> str:
    if not main.loaders:
        return ""
    view, demand = main.loaders[0], demand_per_s(main.window.content)
    if view.workers == 0:
        return ": the training thread loads the data itself (num_workers=0)"
    if view.supply_per_s and demand and view.supply_per_s < demand:
        workers = f"{view.workers} worker" + ("s" if view.workers > 1 else "")
        return (
            f": {workers} can deliver {view.supply_per_s:.3g} batches/s, the training could take {demand:.3g}"
        )
    return ""
