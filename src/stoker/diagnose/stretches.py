"""The train stage cut into stretches, each a small summary of its own: what the whole is judged by, a part
can be judged by too.

Phases, throughput and counters are the stretch's own, from the rows a second. Source lines and the figures of
the loader are known for the whole run only, and are taken from there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from stoker.diagnose.gpu_use import gpus_used
from stoker.diagnose.places import line_shares, pct
from stoker.diagnose.summary import Summary, Trainer, throughput
from stoker.diagnose.window import Span, Window, spans, sum_of
from stoker.model.lead import Lead, PhaseLead
from stoker.model.record import PHASES, ProcessRecord, Sums
from stoker.model.run import Run


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the train stage, with the evaluations and saves that lie in it."""

    start_s: float
    """On the clock of the run."""
    end_s: float
    content: Sums
    """Of the first training process."""


def train_spans(record: ProcessRecord) -> list[Span]:
    return [span for span in spans(record) if span.stage == "train"]


def cut(record: ProcessRecord, edges_s: Sequence[float]) -> list[Stretch]:
    """At these moments; those between are moved to the next row that was written."""
    train = train_spans(record)
    rows = [second.sums for second in record.seconds]
    times = [row.t_s for row in rows]
    inner = {_row_at(edge, rows, times).t_s for edge in edges_s[1:-1]}
    found = []
    for start_s, end_s in pairwise(sorted({edges_s[0], *inner, edges_s[-1]})):
        content = sum_of(_between(train, start_s, end_s, rows, times))
        if content.t_s > 0:
            found.append(Stretch(start_s, end_s, content))
    return found


def _between(
    train: Sequence[Span], start_s: float, end_s: float, rows: Sequence[Sums], times: Sequence[float]
) -> list[Span]:
    """What is training in there. Both moments are a row's, or an end of the train stage."""
    parts = []
    for span in train:
        start = span.start if start_s <= span.start.t_s else _row_at(start_s, rows, times)
        end = span.end if end_s >= span.end.t_s else _row_at(end_s, rows, times)
        if span.start.t_s <= start.t_s < end.t_s <= span.end.t_s:
            parts.append(Span("train", start, end))
    return parts


def _row_at(t_s: float, rows: Sequence[Sums], times: Sequence[float]) -> Sums:
    return rows[min(bisect_left(times, t_s), len(rows) - 1)]


def equal_edges(record: ProcessRecord, count: int, start_s: float = 0.0) -> list[float]:
    """`count` stretches of as much training each; evaluations between do not count."""
    train = [span for span in train_spans(record) if span.end.t_s > start_s]
    if not train:
        return []
    firsts = [max(start_s, span.start.t_s) for span in train]
    whole_s = sum(span.end.t_s - first for span, first in zip(train, firsts, strict=True))
    edges, done_s, number = [firsts[0]], 0.0, 1
    for span, first in zip(train, firsts, strict=True):
        while number < count and whole_s * number / count <= done_s + span.end.t_s - first:
            edges.append(first + whole_s * number / count - done_s)
            number += 1
        done_s += span.end.t_s - first
    return [*edges, train[-1].end.t_s]


def part_of(summary: Summary, start_s: float, end_s: float) -> Summary:
    """The run as if there had been nothing but this stretch of it."""
    run = _run_between(summary.run, start_s, end_s)
    trainers = [_trainer_between(run, one, start_s, end_s) for one in summary.trainers]
    seen = [one for one in trainers if one.window.seconds > 0]
    return replace(summary, run=run, trainers=seen)


def _run_between(run: Run, start_s: float, end_s: float) -> Run:
    """Readings of the GPUs speak of the time before them: one more at the end."""
    first, last = _places([row.t for row in run.host.readings], start_s, end_s)
    host = replace(run.host, readings=run.host.readings[first:last])
    first, last = _places([row.t for row in run.gpu.readings], start_s, end_s)
    later = max(1, len(run.gpu.devices))
    return replace(run, host=host, gpu=replace(run.gpu, readings=run.gpu.readings[first : last + later]))


def _places(times: Sequence[float], start_s: float, end_s: float) -> tuple[int, int]:
    return bisect_left(times, start_s), bisect_right(times, end_s)


def _trainer_between(run: Run, whole: Trainer, start_s: float, end_s: float) -> Trainer:
    rows = [second.sums for second in whole.record.seconds]
    times = [row.t_s for row in rows]
    parts = _between(train_spans(whole.record), start_s, end_s, rows, times)
    content = sum_of(parts)
    window = Window(content, 0.0, "", None, tuple((part.start.t_s, part.end.t_s) for part in parts))
    shares = {name: pct(content, name) for name in PHASES}
    # Single ticks are in the files for the first minute only.
    record = replace(whole.record, lead=_lead_between(whole.record, start_s, end_s), ticks=())
    infer = whole.phase_pct["infer"]
    return replace(
        whole,
        record=record,
        window=window,
        stages_s=_stages_s(whole.record, content, start_s, end_s),
        phase_pct=shares,
        acting_pct=whole.acting_pct * shares["infer"] / infer if infer > 0 else 0.0,
        throughput=throughput(record, window, whole.iteration),
        lines=line_shares(record, content),
        gpus=gpus_used(run, record, window, shares),
    )


def _stages_s(record: ProcessRecord, content: Sums, start_s: float, end_s: float) -> dict[str, float]:
    saving = content.phase("save")
    seconds = {"train": content.t_s - saving, "save": saving}
    for span in spans(record):
        shared_s = min(end_s, span.end.t_s) - max(start_s, span.start.t_s)
        if span.stage != "train" and shared_s > 0:
            seconds[span.stage] = seconds.get(span.stage, 0.0) + shared_s
    return {stage: value for stage, value in seconds.items() if value > 0}


def _lead_between(record: ProcessRecord, start_s: float, end_s: float) -> Lead | None:
    """The account is cumulative: the difference of what it said at two moments. Where it said nothing new in
    there, that of the whole run."""
    times = [t_s for t_s, _ in record.leads]
    first, last = bisect_right(times, start_s) - 1, bisect_right(times, end_s) - 1
    if last < 0 or last <= first:
        return record.lead
    late = record.leads[last][1]
    early = record.leads[first][1] if first >= 0 else None
    if early is None:
        return late
    if (early.by, early.device) != (late.by, late.device) or late.iterations <= early.iterations:
        return record.lead
    return replace(
        late,
        iterations=late.iterations - early.iterations,
        ticks=late.ticks - early.ticks,
        wall_s=late.wall_s - early.wall_s,
        cost_s=late.cost_s - early.cost_s,
        phases={name: _less(seconds, early.phases.get(name)) for name, seconds in late.phases.items()},
    )


def _less(late: PhaseLead, early: PhaseLead | None) -> PhaseLead:
    if early is None:
        return late
    return PhaseLead(
        late.host_s - early.host_s,
        late.idle_s - early.idle_s,
        late.near_s - early.near_s,
        late.unknown_s - early.unknown_s,
    )
