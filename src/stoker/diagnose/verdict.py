"""The verdict on a run: its causes, costliest first; or healthy, not fixable in code, cannot tell."""

from __future__ import annotations

from stoker.diagnose.causes import CAUSES, evaluation_stall
from stoker.diagnose.causes.cause import LITTLE_WORK, NO_KERNEL
from stoker.diagnose.causes.gpu_signals import GpuSignals, works_little
from stoker.diagnose.causes.signals import Signals, waits
from stoker.diagnose.causes.taken import signals
from stoker.diagnose.causes.thresholds import (
    ASKED_PCT,
    BUSY_FOR_BATCH_PCT,
    COMPILED_PCT,
    DRAM_LOW_PCT,
    HEALTHY_AT_MOST_PCT,
    HEALTHY_CEILING,
    HEALTHY_WORK_PCT,
    IN_MOST_TICKS_FRAC,
    MIN_TICKS,
    MIN_WINDOW_S,
    READY_FRAC,
    TENSOR_FEW_PCT,
    UNEXPLAINED_PCT,
)
from stoker.diagnose.gpu_causes import Source
from stoker.diagnose.long_ticks import LongTicks
from stoker.diagnose.summary import Summary
from stoker.model.finding import Finding, Outcome, Severity, Verdict

A_STEP = (
    "a command that trains: stoker run -- python train.py; or, where weights change with neither a torch "
    "optimizer nor backward(), the function that is a step: stoker run --step module:function -- …"
)
LONGER = "a longer run: stoker run --for 60s -- …"


def verdict(summary: Summary) -> Verdict:
    return verdict_on(signals(summary))


_MODEL_AMONG = (
    "functions of your own, and the model is among them: no torch module to speak of was called with "
    "gradients",
    'torch.profiler.record_function("model") around it: its time is then in `ranges` of stoker why --json; '
    "or a torch.nn.Module that calls those functions",
)
_UPDATES_AMONG = (
    "your own code, and what changes the weights is a part of it: no step of a torch optimizer was seen",
    'torch.profiler.record_function("update") around it: its time is then in `ranges` of stoker why --json; '
    "or an optimizer of torch",
)
"""What it is, and what would tell it from the rest."""


def verdict_on(found: Signals | None) -> Verdict:
    """None: there was no training."""
    if found is None or not found.ticks:
        return _cannot("no training step was seen", A_STEP)
    if found.ticks < MIN_TICKS or found.window_s < MIN_WINDOW_S:
        outside = _outside_the_window(found)
        if outside is not None:
            return Verdict(Outcome.CAUSES, outside.says, (outside,))
        seen = f"{found.ticks} ticks in {found.window_s:.1f} s are too few for a cause"
        return _cannot(seen, LONGER)
    compiled_pct = found.host_pct["compile"]
    if compiled_pct >= COMPILED_PCT and not found.compiles_on:
        seen = (
            f"torch.compile was at work for {compiled_pct:.0f} % of the {found.window_s:.0f} s of training, "
            "and then had finished: too little is left to tell what a usual step costs"
        )
        return _cannot(seen, LONGER)
    return judge(found)


def judge(found: Signals) -> Verdict:
    """From signals alone."""
    findings = tuple(sorted(_findings(found), key=_weight, reverse=True))
    outside = [one for one in findings if not one.in_code and _worth(one)]
    worth = [one for one in findings if one.in_code and _worth(one)]
    work_pct = _work_pct(found)
    if outside and ((found.gpu is not None and found.gpu.shared) or not worth):
        ordered = (*outside, *(one for one in findings if one.in_code))
        return Verdict(Outcome.NOT_FIXABLE, "a change of the code does not help against this", ordered)
    if worth and not _works_enough(found, worth):
        return Verdict(Outcome.CAUSES, worth[0].says, findings, _data_left(found, findings))
    if found.long_ticks is not None:
        return _long_now_and_then(found.long_ticks, findings)
    if work_pct is not None and work_pct >= HEALTHY_WORK_PCT:
        text = f"{work_pct:.0f} % of the window is {_work(found)}"
        return Verdict(Outcome.HEALTHY, text, findings, _what_work(found))
    return _without_causes(found, findings)


def _long_now_and_then(long: LongTicks, findings: tuple[Finding, ...]) -> Verdict:
    every = {2: "2nd", 3: "3rd"}.get(long.every, f"{long.every}th")
    seen = (
        f"every {every} tick takes twice as long as the others, or more, in the model's own phases: "
        f"{100 * long.frac:.0f} % of the time goes to what is done there besides"
    )
    evaluation = "an evaluation with gradients is not told from training"
    would_tell = f"{evaluation}: stoker run --eval module:function -- … counts it apart"
    return _cannot(seen, would_tell, findings)


def _what_work(found: Signals) -> str:
    """The counters tell that the multiprocessors work, not on what: plain FP32 products, and chains of small
    operations beside a good model, look like a healthy net of convolutions there. Nor is known what a model
    is asked for without gradients, where no environment takes the answer."""
    asked_pct, gpu = found.host_pct["infer"] - found.acting_pct, found.gpu
    if asked_pct >= ASKED_PCT and (found.asked_ticks_frac or 0.0) < IN_MOST_TICKS_FRAC:
        return (
            f"whether it is evaluated too often: {asked_pct:.0f} % of the thread's time is the model without "
            "gradients; stoker run --eval module:function -- … counts an evaluation apart"
        )
    if gpu is None or gpu.tensor_pct is None or gpu.chains is not None:
        return ""
    much_memory = gpu.dram_pct is not None and gpu.dram_pct >= DRAM_LOW_PCT
    if gpu.tensor_pct >= TENSOR_FEW_PCT and not much_memory:
        return ""
    plain = "" if gpu.fp32_pct is None else f", plain FP32 at {gpu.fp32_pct:.0f} %"
    plain += f", memory traffic at {gpu.dram_pct:.0f} %" if much_memory else ""
    return (
        f"whether this work could be less: tensor cores are at {gpu.tensor_pct:.0f} %{plain}, and only the "
        "names of kernels say why; stoker run --deep -- …"
    )


def _data_left(found: Signals, findings: tuple[Finding, ...]) -> str:
    """A wait for data that no cause explains, beside others that are explained."""
    lost_pct = waits(found).get("data", 0.0)
    if lost_pct < UNEXPLAINED_PCT or any(one.code.startswith("SK1") for one in findings):
        return ""
    would_tell = _handing_over(found) or "a longer run gives more lines"
    return f"why {lost_pct:.0f} % of the window is waiting for data; {would_tell}"


def _handing_over(found: Signals) -> str:
    view = found.loader
    empty = view.loader.empty_frac if view is not None and view.workers else None
    if empty is None or 1 - empty < READY_FRAC:
        return ""
    return (
        f"at {100 * (1 - empty):.0f} % of the reads a batch was ready, so it is taking it over that is slow "
        "(large or many tensors in a batch, workers busy with Python code): the same run with "
        'torch.multiprocessing.set_sharing_strategy("file_system") would tell'
    )


def _outside_the_window(found: Signals) -> Finding | None:
    """Evaluation may be the very reason why the window is so short; its own time is long enough to tell."""
    if found.ticks < MIN_TICKS or found.stages_s.get("eval", 0.0) < MIN_WINDOW_S:
        return None
    evaluation = evaluation_stall.CAUSE.find(found)
    return evaluation if evaluation is not None and _worth(evaluation) else None


def _findings(found: Signals) -> list[Finding]:
    return [finding for cause in CAUSES if (finding := cause.find(found)) is not None]


def _weight(finding: Finding) -> tuple[bool, float, bool]:
    """What can be mended in the code comes first; those whose gain cannot be told come after those whose gain
    is large."""
    known = finding.recoverable_frac
    return (finding.in_code, 0.1 if known is None else known, known is not None)


def _worth(finding: Finding) -> bool:
    if finding.ceiling is None:
        return finding.severity is not Severity.NOTE
    return finding.ceiling > HEALTHY_CEILING


def _works_enough(found: Signals, worth: list[Finding]) -> bool:
    """Real work for most of the window: then only what lies outside, or is part of the work, is left. A deep
    window's estimate is an upper bound: it speaks against small losses only, and has to be larger."""
    at_most = found.gpu is not None and found.gpu.real_work_source == Source.DEEP
    enough = (_work_pct(found) or 0.0) >= (HEALTHY_AT_MOST_PCT if at_most else HEALTHY_WORK_PCT)
    enough = enough and not (at_most and any(one.severity is not Severity.NOTE for one in worth))
    return enough and all(one.recoverable_of in (found.lost_of, NO_KERNEL, LITTLE_WORK) for one in worth)


def _work_pct(found: Signals) -> float | None:
    """Real work of the GPU; without one the model's own time counts as work."""
    return found.gpu.real_work_pct if found.gpu else found.compute_pct


def _work(found: Signals) -> str:
    return "real work on the GPU" if found.gpu else "the model's own work; the device is the CPU"


def _without_causes(found: Signals, findings: tuple[Finding, ...]) -> Verdict:
    lost = waits(found)
    top = max(lost, key=lost.__getitem__)
    unexplained_pct = found.gpu.unexplained_pct if found.gpu else 0.0
    if found.gpu is not None and found.gpu.busy_pct is None and unexplained_pct >= UNEXPLAINED_PCT:
        return _cannot(
            "how busy the GPU is was not measured", "stoker doctor says what can be measured here", findings
        )
    if unexplained_pct >= UNEXPLAINED_PCT:
        seen = f"the GPU idles {unexplained_pct:.0f} % of the window, and nothing recorded says why"
        return _cannot(seen, "stoker run --deep -- …: a second of it under the profiler", findings)
    if lost[top] >= UNEXPLAINED_PCT and top == "other" and found.own_code_trains:
        what, would_tell = _MODEL_AMONG if found.of_functions else _UPDATES_AMONG
        return _cannot(f"{lost[top]:.0f} % of the window is in {what}", would_tell, findings)
    if lost[top] >= UNEXPLAINED_PCT:
        seen = f"{lost[top]:.0f} % of the window is lost in {top}, and no known cause fits"
        would_tell = _handing_over(found) if top == "data" else ""
        return _cannot(seen, would_tell or "a longer run gives more lines; see the lines below", findings)
    if found.gpu is not None and _busy_for_little(found.gpu):
        seen = f"the GPU is busy {found.gpu.busy_pct:.0f} %, with little work, and no known cause fits"
        return _cannot(seen, "stoker run --deep -- …: which kernels, and how small", findings)
    unmeasured = "; real work was not measured" if _work_pct(found) is None else ""
    text = f"nothing that can be named would make it more than {HEALTHY_CEILING:g} times as fast{unmeasured}"
    return Verdict(Outcome.HEALTHY, text, findings, _what_work(found))


def _busy_for_little(gpu: GpuSignals) -> bool:
    return (gpu.busy_pct or 0.0) >= BUSY_FOR_BATCH_PCT and works_little(gpu.busy_pct, gpu.real_work_pct)


def _cannot(seen: str, would_tell: str, findings: tuple[Finding, ...] = ()) -> Verdict:
    return Verdict(Outcome.CANNOT_TELL, seen, findings, would_tell)
