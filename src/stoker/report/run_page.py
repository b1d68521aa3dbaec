"""One page about one run."""

from __future__ import annotations

import os
import shlex

from stoker.diagnose.causes.arrivals import Arrivals, RankArrival, arrivals
from stoker.diagnose.conclusion import in_short
from stoker.diagnose.failure import place as raised_at
from stoker.diagnose.host import HostView, host_view
from stoker.diagnose.loading import demand_per_s
from stoker.diagnose.places import LineShare, shown
from stoker.diagnose.remedies import not_worth_trying
from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.tick_kinds import TickKind
from stoker.diagnose.verdict import verdict
from stoker.model.record import COMPUTE, PHASES, Place
from stoker.model.run import RunFailure, RunInfo
from stoker.report.cause_blocks import cause_blocks, remedy_block
from stoker.report.chosen_block import chosen_block
from stoker.report.figures import counted, duration, milliseconds, percent, rate, signal_name, size
from stoker.report.gpu_blocks import gpu_blocks
from stoker.report.knob_blocks import knob_blocks
from stoker.report.next_step import next_command
from stoker.report.page import Bar, Bars, Block, Facts, Notes, Page, Sentence, Table
from stoker.report.rank_blocks import rank_blocks
from stoker.report.run_notes import notes

LINE_ROOM = 58
"""Beside its share and the longest name of a phase, in 80 columns."""
LINES_SHOWN = 6
SMALL_PCT = 0.05
NOTED_FRAC = 0.05

_PHASE_NOTES = {
    "data": "waiting for the loader",
    "env": "environment steps and resets",
    "infer": "model without gradients",
    "h2d": "copies to the device",
    "loss": "between the model and backward()",
    "optim": "optimizer step, clipping",
    "sync": "reads that wait for the device",
    "save": "torch.save and the like",
    "gc": "garbage collector",
    "compile": "torch.compile",
    "other": "your Python code, see the lines",
}


def build(summary: Summary) -> Page:
    info = summary.run.info
    who = f"pid {info.attached_pid}: " if info.attached_pid else ""
    title = f"stoker · {who}{shlex.join(short_command(info))}"
    found = verdict(summary)
    blocks: list[Block] = [Sentence(in_short(summary, found))]
    if info.failure is not None:
        label = "stopped" if info.ended_by == "signal-from-user" else "failed"
        blocks.append(Facts(((label, failure_text(info.failure, info.cwd)),)))
    blocks += knob_blocks(summary.run)
    if summary.main is not None:
        blocks += cause_blocks(found, info.cwd)
        blocks.append(remedy_block(not_worth_trying(summary)))
        blocks += _trainer_blocks(summary, summary.main)
    blocks += _rank_block(summary)
    blocks += rank_blocks(summary)
    blocks += _host_block(summary)
    blocks.append(Notes("Not measured, or to be taken with care", tuple(notes(summary))))
    blocks.append(next_command(summary, found))
    return Page(title, status(summary), tuple(blocks))


def short_command(info: RunInfo) -> list[str]:
    """Programs and scripts by their names: what follows them tells one run from another."""
    return [
        os.path.basename(word) if index <= 1 or word.endswith((".py", ".sh")) else word
        for index, word in enumerate(info.command)
    ]


def failure_text(failure: RunFailure, cwd: str) -> str:
    """The exception, if one was seen, then the exit."""
    outside = f"{failure.text}; {failure.hint}" if failure.hint else failure.text
    if failure.exception is None:
        return outside
    where = raised_at(failure).removeprefix(cwd + os.sep)
    first_line = (failure.message or "").strip().partition("\n")[0]
    parts = [failure.exception, f"at {where}" if where else "", f"({outside})"]
    return " ".join(part for part in parts if part) + (f": {first_line}" if first_line else "")


def status(summary: Summary) -> str:
    info = summary.run.info
    if info.ended_s is None:
        return "no end recorded"
    length = duration(info.ended_s - info.started_s)
    if info.attached_pid:
        return f"watched for {length}"
    how = f"exit {info.exit_code}" if info.exit_signal is None else signal_name(info.exit_signal)
    if info.ended_by == "time-limit":
        how = "ended by --for"
    return f"{how} · {length}"


def _trainer_blocks(summary: Summary, main: Trainer) -> list[Block]:
    blocks: list[Block] = [Facts(tuple(_speed(summary, main)))]
    content = main.window.content
    who = f"pid {main.record.pid}" if main.record.rank is None else f"rank {main.record.rank}"
    rank = f"{who}, " if len(summary.trainers) > 1 else ""
    ticks = f"{content.ticks:,} {main.tick_kind.many}"
    heading = f"Where the training thread's time goes ({rank}{ticks} in {duration(content.t_s)})"
    blocks += chosen_block(summary.chosen)
    blocks += gpu_blocks(summary, main)
    blocks.append(Bars(heading, tuple(_bars(main, _seen_as(main, arrivals(summary))))))
    blocks += _line_block(summary, main)
    blocks += _loader_block(summary, main)
    return blocks


def _speed(summary: Summary, main: Trainer) -> list[tuple[str, str]]:
    flow = main.throughput
    parts = []
    if flow.ticks_per_s:
        about = [] if main.tick_kind is TickKind.OPTIMIZER_STEP else ["a tick here"]
        about += [main.window.steadiness.phrase] if main.window.steadiness else []
        note = f" ({'; '.join(about)})" if about else ""
        parts.append(f"{rate(flow.ticks_per_s)} {main.tick_kind.many}/s{note}")
    if flow.samples_per_s:
        parts.append(f"{rate(flow.samples_per_s)} samples/s")
    if flow.env_steps_per_s:
        parts.append(f"{rate(flow.env_steps_per_s)} env steps/s")
    if flow.updates_per_env_step:
        parts.append(f"{counted(flow.updates_per_env_step, 'update')} per env step")
    rows = [("speed", " · ".join(parts) or "no ticks")]
    if described := _iteration(main):
        rows.append(("iteration", described))
    if summary.length:
        length = summary.length
        rows.append(
            (
                "whole training",
                f"about {duration(length.seconds)} at this speed: {length.total:,.0f} "
                f"{length.unit.replace('_', ' ')} ({length.source})",
            )
        )
    order = ("startup", "warm-up", "train", "eval", "save", "deep", "after")
    life = sum(main.stages_s.values())
    stages = [
        f"{name} {duration(main.stages_s.get(name, 0.0))}"
        for name in order
        if name == "train" or main.stages_s.get(name, 0.0) > life / 100
    ]
    if main.rest_pct >= 1:
        stages.append(f"{main.rest_pct:.0f} % of the time is not training")
    rows.append(("stages", " · ".join(stages)))
    return rows


def _iteration(main: Trainer) -> str:
    """Only where it is more than one tick."""
    cycle = main.iteration
    accumulated = main.throughput.backwards_per_tick or 1.0
    parts = []
    if cycle is not None and (cycle.env_calls or sum(cycle.optimizer_steps.values()) > 1):
        about = "" if cycle.exact else "about "
        if cycle.env_calls:
            parts.append(about + counted(cycle.env_calls, "env call"))
        names = main.record.optimizers
        for index, steps in sorted(cycle.optimizer_steps.items()):
            name = names[index] if index < len(names) else "optimizer"
            label = f"{name} #{index + 1}" if len(cycle.optimizer_steps) > 1 else name
            parts.append(f"{about}{steps:.4g} × {label}")
    if accumulated >= 1.5 and not main.throughput.env_steps_per_s and len(main.record.optimizers) == 1:
        parts.append(f"{accumulated:.3g} backward passes per step")
    return ", ".join(parts)


def _bars(main: Trainer, seen: RankArrival | None) -> list[Bar]:
    rows = []
    for name in sorted(PHASES, key=lambda name: -main.phase_pct[name]):
        pct = main.phase_pct[name]
        if pct < SMALL_PCT:
            continue
        note = _PHASE_NOTES.get(name, "")
        if name == "infer" and main.acting_pct > 0.5 * pct:
            note = "acting: model before an env step"
        if name == "data" and main.loaders and not main.loaders[0].workers:
            note = "loaded by the training thread"
        if name == "backward" and seen is not None and seen.waits_frac >= NOTED_FRAC:
            note = f"{100 * seen.waits_frac:.0f} % waiting for other ranks"
        rows.append(Bar(name, pct, note, waiting=name not in COMPUTE))
    return rows


def _line_block(summary: Summary, main: Trainer) -> list[Block]:
    lines = _costliest(main)
    if not lines:
        return []
    cwd = summary.run.info.cwd
    rows = tuple((f"{line.pct:.1f} %", line.phase, shown(line.place, cwd, LINE_ROOM)) for line in lines)
    return [Table("Lines that cost most", ("share", "phase", "line"), rows, frozenset({0}))]


def _costliest(main: Trainer) -> list[LineShare]:
    """Half of them are for what is not the model's own work, however small beside it: there a reader can do
    something."""
    lines = [line for line in main.lines if line.pct >= 1.0]
    rest = [line for line in lines if line.phase not in COMPUTE]
    work = [line for line in lines if line.phase in COMPUTE]
    kept = [*work[: max(LINES_SHOWN // 2, LINES_SHOWN - len(rest))], *rest]
    return sorted(kept, key=lambda line: -line.pct)[:LINES_SHOWN]


def _loader_block(summary: Summary, main: Trainer) -> list[Block]:
    if not main.loaders:
        return []
    view = main.loaders[0]
    loader = view.loader
    who = counted(view.workers, "worker") if view.workers else "the training thread (num_workers=0)"
    whose = "made by the data set" if loader.iterable else "set by the sampler"
    parts = [f"{who}, batch {loader.batch_size or whose}"]
    if view.sample_ms is not None:
        worst = f", slowest {milliseconds(view.sample_max_ms)}" if view.sample_max_ms else ""
        parts.append(f"one sample {milliseconds(view.sample_ms)}{worst}")
        parts.append(f"{percent(view.cpu_frac)} of it on the CPU" if view.cpu_frac is not None else "")
        parts.append(f"collate {milliseconds(view.collate_ms)} a batch")
    rows = [("loader", " · ".join(part for part in parts if part))]
    if view.workers and view.supply_per_s is not None and (demand := demand_per_s(main.window.content)):
        rows.append(
            (
                "supply",
                f"the training could take {rate(demand)} batches/s, the loader can deliver "
                f"{rate(view.supply_per_s)}",
            )
        )
    if view.workers and loader.empty_frac is not None and loader.depth_mean is not None:
        rows.append(
            (
                "queue",
                f"empty at {percent(loader.empty_frac)} of the reads, on average {loader.depth_mean:.2g} "
                "batches ready",
            )
        )
    for line, share in view.lines[:1]:
        where = shown(Place(line, line), summary.run.info.cwd)
        rows.append(("", f"at {percent(share)} of the looks a worker was in {where}"))
    if len(main.loaders) > 1:
        rows.append(("", f"{len(main.loaders)} loaders in use; workers' figures are of all together"))
    return [Facts(tuple(rows))]


def _rank_block(summary: Summary) -> list[Block]:
    if len(summary.trainers) < 2:
        return []
    met = arrivals(summary)
    rows = tuple(_rank_row(one, _seen_as(one, met)) for one in summary.trainers)
    columns = ("rank", "pid", "ticks/s", "data", "env", "model", "rest", "waits", "last")
    table = Table("Training processes, side by side", columns, rows, frozenset(range(len(columns))))
    if met is None or not met.ranks:
        why = f": {met.reason}" if met else ""
        return [table, Notes("", (f"when each rank comes to backward cannot be told{why}",))]
    return [table, Notes("", tuple(_rank_notes(summary, met)))]


def _seen_as(one: Trainer, met: Arrivals | None) -> RankArrival | None:
    return next((seen for seen in met.ranks if seen.rank == one.record.rank), None) if met else None


def _rank_row(one: Trainer, seen: RankArrival | None) -> tuple[str, ...]:
    """A rank that waits in backward for another does no work there."""
    waits_pct = 100 * seen.waits_frac if seen else 0.0
    model_pct = max(0.0, one.compute_pct - waits_pct)
    rest_pct = 100 - one.compute_pct - one.phase_pct["data"] - one.phase_pct["env"]
    return (
        "-" if one.record.rank is None else str(one.record.rank),
        str(one.record.pid),
        rate(one.throughput.ticks_per_s) if one.throughput.ticks_per_s else "-",
        *(f"{pct:.1f} %" for pct in (one.phase_pct["data"], one.phase_pct["env"], model_pct, rest_pct)),
        f"{waits_pct:.1f} %" if seen else "?",
        f"{100 * seen.last_frac:.0f} %" if seen else "?",
    )


def _rank_notes(summary: Summary, met: Arrivals) -> list[str]:
    found = [
        f"waits: in backward, until the last rank is there; last: of {met.ticks:,} ticks, those at which "
        "this rank came last"
    ]
    most = max(met.ranks, key=lambda rank: rank.waits_frac)
    if most.waits_frac >= NOTED_FRAC and any(one.gpus.main for one in summary.trainers):
        found.append("a GPU that spins in a collective is counted busy; its rank waits all the same")
    return found


def _host_block(summary: Summary) -> list[Block]:
    main = summary.main
    start = main.record.began_s if main else None
    view = host_view(summary.run.host, start)
    return [Facts((("host", _host_text(view)),))] if view else []


def _host_text(view: HostView) -> str:
    parts = []
    if view.cores_used is not None:
        allowed = f" of {view.cores_allowed:.3g} allowed" if view.cores_allowed else ""
        parts.append(f"{view.cores_used:.2f} cores used{allowed}")
    if view.hottest_core_pct is not None:
        parts.append(f"hottest core {view.hottest_core_pct:.0f} %")
    if view.rss_peak_bytes:
        parts.append(f"memory {size(view.rss_peak_bytes)}")
    if view.read_bytes_per_s is not None and view.read_bytes_per_s > 1e6:
        parts.append(f"disk read {size(view.read_bytes_per_s)}/s")
    if view.throttled_frac and view.throttled_frac > 0.01:
        parts.append(f"throttled by the cgroup {percent(view.throttled_frac)} of the time")
    if view.iowait_pct and view.iowait_pct > 5:
        parts.append(f"iowait {view.iowait_pct:.0f} %")
    return " · ".join(parts)
