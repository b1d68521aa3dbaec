"""What the reader of a run's page must know before believing it."""

from __future__ import annotations

import os
from itertools import pairwise

from stoker.diagnose.causes.thresholds import CORE_WAIT_FRAC
from stoker.diagnose.failure import place
from stoker.diagnose.host import core_wait_frac, host_view
from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.tick_kinds import TickKind
from stoker.model.record import HookFailure, ProcessRecord
from stoker.model.run import Run
from stoker.report.figures import counted, duration, percent
from stoker.report.gpu_notes import gpu_notes

FEW_SAMPLES = 40
CROWDED_PCT, CROWDED_OWN_FRAC = 95.0, 0.6
RAISED_SHOWN = 3
MISSING_SHOWN = 3


def notes(summary: Summary) -> list[str]:
    run, main = summary.run, summary.main
    found = list(run.info.notes) + _raised(run)
    for process in run.processes:
        found += _process_notes(process)
    found += [f"cannot be read: {text}" for text in run.unreadable]
    if main is not None:
        found += _trainer_notes(main, summary)
    return list(dict.fromkeys(found + _host_notes(run)))  # several processes may say the same


def _raised(run: Run) -> list[str]:
    """Exceptions beside the one the page names; a process told to stop is no news."""
    told_to_stop = run.info.ended_by in ("time-limit", "signal-from-user")
    named = run.info.failure.pid if run.info.failure else None
    found = []
    for process in run.processes:
        raised = process.raised
        if raised is None or process.pid == named or (told_to_stop and raised.kind == "interrupted"):
            continue
        where = f" at {place(raised).removeprefix(run.info.cwd + os.sep)}" if place(raised) else ""
        first_line = raised.message.strip().partition("\n")[0]
        found.append(
            f"pid {process.pid} ended with {raised.type}{where}{f': {first_line}' if first_line else ''}"
        )
    if len(found) > RAISED_SHOWN:
        return [*found[:RAISED_SHOWN], f"{len(found) - RAISED_SHOWN} more processes ended with an exception"]
    return found


def _process_notes(process: ProcessRecord) -> list[str]:
    found = [_hook_note(hook) for hook in process.hook_failures]
    if process.lost_rows:
        found.append(
            f"pid {process.pid}: {counted(process.lost_rows, 'row')} could not be written (disk full?)"
        )
    if process.unreadable_rows:
        found.append(f"pid {process.pid}: {counted(process.unreadable_rows, 'row')} cannot be read")
    return found


def _hook_note(hook: HookFailure) -> str:
    if hook.when == "the end":  # a name given with --env, --eval or --step that never came up
        return hook.error
    return f"hook {hook.name!r} was switched off at {hook.when}: {hook.error}"


def _host_notes(run: Run) -> list[str]:
    found = [
        f"pid {one.pid}: Python with {one.flags} cannot be seen from inside" for one in run.host.isolated
    ]
    missing = run.host.missing
    found += [f"host: {field.name} not measured: {field.reason}" for field in missing[:MISSING_SHOWN]]
    if len(missing) > MISSING_SHOWN:
        found.append(f"host: {len(missing) - MISSING_SHOWN} more fields not measured, see outside/host.jsonl")
    if not run.host.readings:
        return [*found, "the host watcher recorded nothing"]
    lost = max(reading.lost_rows or 0 for reading in run.host.readings)
    return [*found, f"host: {counted(lost, 'row')} could not be written (disk full?)"] if lost else found


def _trainer_notes(main: Trainer, summary: Summary) -> list[str]:
    found = []
    if main.window.remark:
        remark = main.window.remark
        kind = main.tick_kind
        found.append(remark.replace("ticks", kind.many).replace("tick", kind.one))
    if main.tick_kind is TickKind.BACKWARD_PASS:
        found.append(
            "no step of a torch optimizer was seen: what changes the weights is counted as other, and a tick "
            "is a backward pass"
        )
    if main.named_step:
        found.append(
            "a tick is a call of the function named with --step; what of a model is no torch module, and "
            "what changes its weights, is counted as other, like any code of yours"
        )
    if main.graphed:
        found.append(
            "a step is the replay of a CUDA graph: forward, backward and optimizer are not told apart in it, "
            "all of it is optim"
        )
    if main.of_functions:
        found.append(
            "no torch module, or none to speak of, was called with gradients: a model made of functions is "
            "counted as other, like any code of yours"
        )
    samples = sum(sample.count for sample in main.record.sampled if sample.stage == "train")
    if not samples:
        found.append("the training was never looked at: there are no source lines")
    elif samples < FEW_SAMPLES:
        found.append(f"source lines rest on only {counted(samples, 'look')}; a longer run gives better ones")
    if not main.record.ended and summary.run.info.ended_s is not None:
        found.append("the training process was ended from outside: its last second may be missing")
    found += _crowded(main, summary)
    found += _passed_over(main)
    gap = _longest_gap_s(main)
    if gap > 5:
        found.append(
            f"nothing was written for {duration(gap)}: the process was stopped, or the disk was full"
        )
    deep = main.record.deep
    if deep is not None and deep.mode == "asked" and deep.state == "not taken":
        found.append(f"no deep window was taken: {deep.why}")
    return found + gpu_notes(main)


def _crowded(main: Trainer, summary: Summary) -> list[str]:
    """Other jobs are at work on the same cores: figures of this run are those of a slower machine. Where they
    cost much, that is a cause (SK504) and needs no note."""
    view = host_view(summary.run.host, *main.window.span)
    if view is None or None in (view.cores_used, view.cores_allowed, view.allowed_cpu_pct):
        return []
    used, allowed, in_use_pct = view.cores_used or 0.0, view.cores_allowed or 0.0, view.allowed_cpu_pct or 0.0
    if in_use_pct < CROWDED_PCT or used > CROWDED_OWN_FRAC * allowed:
        return []
    waited = core_wait_frac(summary.run.host, main.record.pid, *main.window.span)
    if waited is not None and waited >= CORE_WAIT_FRAC:
        return []
    slower = (
        "by how much is not known" if waited is None else f"{100 * waited:.0f} % of the time it had no core"
    )
    return [
        f"the {allowed:.3g} cores it may use were in use {in_use_pct:.0f} % of the time, {used:.2g} of them "
        f"by this run: others slow it down, {slower}"
    ]


def _passed_over(main: Trainer) -> list[str]:
    seconds = main.record.seconds
    closely = seconds[-1].closely_frac if seconds else 1.0
    if closely >= 1.0:
        return []
    return [
        f"to keep the cost of watching low, model, backward and optimizer were told apart in "
        f"{percent(closely)} of the ticks, drawn at random; the length of every tick is exact"
    ]


def _longest_gap_s(main: Trainer) -> float:
    times = [second.sums.t_s for second in main.record.seconds]
    return max((b - a for a, b in pairwise(times)), default=0.0)
