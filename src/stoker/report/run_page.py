"""One page about one run."""

from __future__ import annotations

import shlex
from itertools import pairwise

from stoker.diagnose.host import HostView, host_view
from stoker.diagnose.loading import demand_per_s
from stoker.diagnose.places import shown
from stoker.diagnose.sentence import sentence
from stoker.diagnose.summary import Summary, Trainer
from stoker.model.record import COMPUTE, PHASES, Place
from stoker.report.figures import duration, milliseconds, percent, rate, size
from stoker.report.page import Bar, Bars, Block, Facts, NextCommand, Notes, Page, Sentence, Table

LINES_SHOWN = 6
SMALL_PCT = 0.05
FEW_SAMPLES = 40

_PHASE_NOTES = {
    "data": "waiting for the loader",
    "env": "environment steps and resets",
    "infer": "model without gradients",
    "h2d": "copies to the device",
    "loss": "between the model and backward()",
    "optim": "optimizer step, clipping",
    "sync": "reads that wait for the device",
    "save": "torch.save",
    "gc": "garbage collector",
    "compile": "torch.compile",
    "other": "your Python code, see the lines",
}


def build(summary: Summary) -> Page:
    info = summary.run.info
    title = f"stoker · {shlex.join(info.command)}" if info.command else f"stoker · pid {info.attached_pid}"
    blocks: list[Block] = [Sentence(sentence(summary))]
    if summary.main is not None:
        blocks += _trainer_blocks(summary, summary.main)
    blocks += _rank_block(summary)
    blocks += _host_block(summary)
    blocks.append(Notes("Not measured, or to be taken with care", tuple(notes(summary))))
    blocks.append(_next(summary))
    return Page(title, status(summary), tuple(blocks))


def status(summary: Summary) -> str:
    info = summary.run.info
    if info.ended_s is None:
        return "no end recorded"
    length = duration(info.ended_s - info.started_s)
    if info.attached_pid:
        return length
    how = f"exit {info.exit_code}" if info.exit_signal is None else f"signal {info.exit_signal}"
    if info.ended_by == "time-limit":
        how = "ended by --for"
    return f"{how} · {length}"


def _trainer_blocks(summary: Summary, main: Trainer) -> list[Block]:
    blocks: list[Block] = [Facts(tuple(_speed(summary, main)))]
    content = main.window.content
    rank = f"rank {main.record.rank}, " if len(summary.trainers) > 1 else ""
    heading = (
        f"Where the training thread's time goes ({rank}{content.ticks:,} ticks in {duration(content.t_s)})"
    )
    blocks.append(Bars(heading, tuple(_bars(main))))
    blocks += _line_block(summary, main)
    blocks += _loader_block(summary, main)
    return blocks


def _speed(summary: Summary, main: Trainer) -> list[tuple[str, str]]:
    flow = main.throughput
    parts = []
    if flow.ticks_per_s:
        parts.append(f"{rate(flow.ticks_per_s)} ticks/s")
    if flow.samples_per_s:
        parts.append(f"{rate(flow.samples_per_s)} samples/s")
    if flow.env_steps_per_s:
        parts.append(f"{rate(flow.env_steps_per_s)} env steps/s")
    if flow.updates_per_env_step:
        parts.append(f"{flow.updates_per_env_step:.3g} update{_s(flow.updates_per_env_step)} per env step")
    rows = [("speed", " · ".join(parts) or "no ticks")]
    if described := _iteration(main):
        rows.append(("iteration", described))
    if summary.length:
        length = summary.length
        rows.append(
            (
                "whole training",
                f"{duration(length.seconds)} for {length.total:,.0f} {length.unit} ({length.source})",
            )
        )
    order = ("startup", "warm-up", "train", "eval", "save", "after")
    life = sum(main.stages_s.values())
    stages = [
        f"{name} {duration(main.stages_s.get(name, 0.0))}"
        for name in order
        if name == "train" or main.stages_s.get(name, 0.0) > life / 100
    ]
    rows.append(("stages", " · ".join(stages)))
    return rows


def _s(count: float) -> str:
    return "" if count == 1 else "s"


def _iteration(main: Trainer) -> str:
    """Only where it is more than one tick."""
    cycle = main.iteration
    accumulated = main.throughput.backwards_per_tick or 1.0
    parts = []
    if cycle is not None and (cycle.env_calls or sum(cycle.optimizer_steps.values()) > 1):
        about = "" if cycle.exact else "about "
        if cycle.env_calls:
            parts.append(f"{about}{cycle.env_calls:.4g} env call{_s(cycle.env_calls)}")
        names = main.record.optimizers
        for index, steps in sorted(cycle.optimizer_steps.items()):
            name = names[index] if index < len(names) else "optimizer"
            label = f"{name} #{index + 1}" if len(cycle.optimizer_steps) > 1 else name
            parts.append(f"{about}{steps:.4g} × {label}")
    if accumulated >= 1.5 and not main.throughput.env_steps_per_s and len(main.record.optimizers) == 1:
        parts.append(f"{accumulated:.3g} backward passes per step")
    return ", ".join(parts)


def _bars(main: Trainer) -> list[Bar]:
    rows = []
    for name in sorted(PHASES, key=lambda name: -main.phase_pct[name]):
        pct = main.phase_pct[name]
        if pct < SMALL_PCT:
            continue
        note = _PHASE_NOTES.get(name, "")
        if name == "infer" and main.acting_pct > 0.5 * pct:
            note = f"acting: {main.acting_pct:.1f} % before an env step"
        rows.append(Bar(name, pct, note, waiting=name not in COMPUTE))
    return rows


def _line_block(summary: Summary, main: Trainer) -> list[Block]:
    lines = [line for line in main.lines if line.pct >= 1.0][:LINES_SHOWN]
    if not lines:
        return []
    rows = tuple((f"{line.pct:.1f} %", line.phase, shown(line.place, summary.run.info.cwd)) for line in lines)
    return [Table("Lines that cost most", ("share", "phase", "line"), rows, frozenset({0}))]


def _loader_block(summary: Summary, main: Trainer) -> list[Block]:
    if not main.loaders:
        return []
    view = main.loaders[0]
    loader = view.loader
    who = (
        f"{view.workers} worker{_s(view.workers)}" if view.workers else "the training thread (num_workers=0)"
    )
    parts = [f"{who}, batch {loader.batch_size or 'set by the sampler'}"]
    if view.sample_ms is not None:
        worst = f", slowest {milliseconds(view.sample_max_ms)}" if view.sample_max_ms else ""
        parts.append(f"one sample {milliseconds(view.sample_ms)}{worst}")
        parts.append(f"{percent(view.cpu_frac)} of it computing" if view.cpu_frac is not None else "")
        parts.append(f"collate {milliseconds(view.collate_ms)} a batch")
    rows = [("loader", " · ".join(part for part in parts if part))]
    if view.supply_per_s is not None and (demand := demand_per_s(main.window.content)):
        rows.append(
            (
                "supply",
                f"the training could take {rate(demand)} batches/s, the loader can deliver "
                f"{rate(view.supply_per_s)}",
            )
        )
    if loader.empty_frac is not None and loader.depth_mean is not None:
        rows.append(
            (
                "queue",
                f"empty at {percent(loader.empty_frac)} of the reads, {loader.depth_mean:.2g} batches in it",
            )
        )
    for line, share in view.lines[:1]:
        if line is not None:
            where = shown(Place(line, line), summary.run.info.cwd)
            rows.append(("", f"workers were found in {where} at {percent(share)} of the looks"))
    if len(main.loaders) > 1:
        rows.append(("", f"{len(main.loaders)} loaders in use; workers' figures are of all together"))
    return [Facts(tuple(rows))]


def _rank_block(summary: Summary) -> list[Block]:
    if len(summary.trainers) < 2:
        return []
    rows = tuple(
        (
            "-" if t.record.rank is None else str(t.record.rank),
            str(t.record.pid),
            f"{t.throughput.ticks_per_s:.3g}" if t.throughput.ticks_per_s else "-",
            *(f"{t.phase_pct[name]:.1f} %" for name in ("data", "env", "backward", "other")),
        )
        for t in summary.trainers
    )
    columns = ("rank", "pid", "ticks/s", "data", "env", "backward", "other")
    return [Table("Training processes", columns, rows, frozenset(range(7)))]


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


def notes(summary: Summary) -> list[str]:
    """What the reader must know before believing the page."""
    run, main = summary.run, summary.main
    found = list(run.info.notes)
    if run.info.failure:
        found.append(run.info.failure)
    for process in run.processes:
        if process.raised:
            where = f" at {process.raised.file}:{process.raised.line}" if process.raised.file else ""
            text = process.raised.message.splitlines()[0][:160] if process.raised.message else ""
            found.append(f"pid {process.pid} ended with {process.raised.type}{where}: {text}")
        found += [
            f"hook {hook.name!r} was switched off at {hook.when}: {hook.error}"
            for hook in process.hook_failures
        ]
        if process.lost_rows:
            found.append(f"pid {process.pid}: {process.lost_rows} rows could not be written (disk full?)")
        if process.unreadable_rows:
            found.append(f"pid {process.pid}: {process.unreadable_rows} rows cannot be read")
    found += [f"cannot be read: {text}" for text in run.unreadable]
    if main is not None:
        found += _trainer_notes(main)
    for python in run.host.isolated:
        found.append(f"pid {python.pid}: Python with {python.flags} cannot be seen from inside")
    found += [f"host: {field.name} not measured: {field.reason}" for field in run.host.missing[:3]]
    if not run.host.readings:
        found.append("the host watcher recorded nothing")
    return found


def _trainer_notes(main: Trainer) -> list[str]:
    found = []
    if main.window.remark:
        found.append(main.window.remark)
    samples = sum(sample.count for sample in main.record.sampled if sample.stage == "train")
    if samples < FEW_SAMPLES:
        found.append(f"source lines rest on only {samples} looks; a longer run gives better ones")
    if not main.record.ended:
        found.append("the training process was ended from outside: its last second may be missing")
    gap = _longest_gap_s(main)
    if gap > 5:
        found.append(
            f"nothing was written for {duration(gap)}: the process was stopped, or the disk was full"
        )
    if "+cpu" in (main.record.torch or ""):
        found.append("this torch has no GPU: the device is the CPU, the model's own time counts as work")
    else:
        found.append("GPU counters are not read in this version: times are of the training thread")
    return found


def _longest_gap_s(main: Trainer) -> float:
    times = [second.sums.t_s for second in main.record.seconds]
    return max((b - a for a, b in pairwise(times)), default=0.0)


def _next(summary: Summary) -> NextCommand:
    main = summary.main
    if main is None and not summary.run.info.attached_pid:
        return NextCommand("stoker doctor", "what can be measured here")
    if main is not None and main.window.seconds < 20 and summary.run.info.command:
        return NextCommand(f"stoker why {summary.run.info.id} --json", "a longer run gives firmer figures")
    return NextCommand(f"stoker why {summary.run.info.id} --json", "everything that was measured")
