"""Which part of a process's life is training, and where its steady part begins.

Stages come from marks written by the process itself. The warm-up is cut by MSER-5 over the ticks of the first
minute: the cut that minimises the variance of the mean of what remains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from stoker.model.record import NOTHING, Mark, ProcessRecord, Sums, Tick

BATCH = 5
MIN_TICKS = 40
WARMUP_MIN = 0.05
SHORT_S = 10.0
DRIFT_MIN_S = 10.0
DRIFT_RATIO = 1.25
OUTLIER = 5.0
"""Ticks beyond this many medians are stalls and count as that many, or one stall decides the cut."""


@dataclass(frozen=True, slots=True)
class Span:
    stage: str
    start: Sums
    end: Sums

    @property
    def content(self) -> Sums:
        return self.end.minus(self.start)


@dataclass(frozen=True, slots=True)
class Window:
    """The steady part of the train stage: what its sums are, and what was left out."""

    content: Sums
    warmup_s: float
    remark: str

    @property
    def seconds(self) -> float:
        return self.content.t_s


def spans(record: ProcessRecord) -> list[Span]:
    """The life of the process cut at its marks."""
    if record.last is None:
        return []
    began = record.process_start_s if record.process_start_s is not None else record.began_s
    origin = Sums(began, NOTHING.phase_s, 0, 0, 0, 0)
    edges = [Mark("startup", origin), *sorted(record.marks, key=lambda mark: mark.sums.t_s)]
    ends = [mark.sums for mark in edges[1:]] + [record.last]
    cut = [Span(mark.stage, mark.sums, end) for mark, end in zip(edges, ends, strict=True)]
    return [span for span in cut if span.end.t_s > span.start.t_s]


def stage_seconds(record: ProcessRecord, window: Window) -> dict[str, float]:
    """Seconds of each stage; they add up to the life of the process."""
    seconds: dict[str, float] = {}
    for span in spans(record):
        seconds[span.stage] = seconds.get(span.stage, 0.0) + span.content.t_s
        if span.stage == "train":
            saving = span.content.phase("save")
            seconds["train"] -= saving
            seconds["save"] = seconds.get("save", 0.0) + saving
    if window.warmup_s:
        seconds["train"] -= window.warmup_s
        seconds["warm-up"] = window.warmup_s
    return {stage: value for stage, value in seconds.items() if value > 0}


def training_window(record: ProcessRecord) -> Window:
    cut = spans(record)
    train = [span for span in cut if span.stage == "train"]
    if not train:
        return _without_ticks(cut)
    start_s = warmup_end_s(record.ticks)
    rows = [second.sums for second in record.seconds]
    steady = [part for span in train if (part := _after(span, start_s, rows)) is not None]
    whole = _total(train)
    content = _total(steady)
    if content.t_s < whole.t_s / 3 or content.ticks < 2:
        return Window(whole, 0.0, f"too short to cut a warm-up: {whole.ticks} ticks in {whole.t_s:.1f} s")
    return Window(content, whole.t_s - content.t_s, _short(content) or drift(steady, rows))


def _short(content: Sums) -> str:
    if content.t_s >= SHORT_S and content.ticks >= MIN_TICKS:
        return ""
    return f"short: {content.ticks:,} ticks in {content.t_s:.1f} s; a longer run gives firmer figures"


def _without_ticks(cut: list[Span]) -> Window:
    return Window(_total(cut), 0.0, "no optimizer step was seen: this is everything since the start")


def warmup_end_s(ticks: Sequence[Tick]) -> float:
    """The end of the last tick that belongs to the warm-up; 0 where there is none."""
    index = warmup_ticks([tick.duration_s for tick in ticks])
    return ticks[index - 1].end_s if index else 0.0


def warmup_ticks(durations_s: Sequence[float]) -> int:
    """MSER-5: how many leading ticks to leave out. Never more than half."""
    if len(durations_s) < MIN_TICKS:
        return 0
    limit = OUTLIER * median(durations_s)
    batches = [
        sum(min(value, limit) for value in durations_s[i : i + BATCH]) / BATCH
        for i in range(0, len(durations_s) - BATCH + 1, BATCH)
    ]
    cut = _mser(batches)
    return cut * BATCH if cut and _differs(batches[:cut], batches[cut:]) else 0


def _differs(lead: list[float], rest: list[float]) -> bool:
    """In even noise the minimum may lie anywhere: a lead as fast as the rest is no warm-up."""
    return abs(fmean(lead) - fmean(rest)) > WARMUP_MIN * fmean(rest)


def _mser(values: list[float]) -> int:
    centre = median(values)  # small numbers keep rounding out of the variance
    values = [value - centre for value in values]
    count = total = squares = 0.0
    best, best_index = float("inf"), 0
    for index in range(len(values) - 1, -1, -1):
        count, total, squares = count + 1, total + values[index], squares + values[index] ** 2
        if index > len(values) // 2 or count < 3:
            continue
        error = (squares - total * total / count) / (count * count)
        if error <= best:
            best, best_index = error, index
    return best_index


def _after(span: Span, start_s: float, rows: list[Sums]) -> Span | None:
    """The part of a span after a moment, cut at the next row that was written."""
    if span.start.t_s >= start_s:
        return span
    later = next((row for row in rows if start_s <= row.t_s < span.end.t_s), None)
    return Span(span.stage, later, span.end) if later is not None else None


def drift(parts: Sequence[Span], rows: list[Sums]) -> str:
    """A remark where one half of the window runs at another speed than the other; else empty."""
    total = _total(parts)
    if total.t_s < DRIFT_MIN_S or total.ticks < MIN_TICKS:
        return ""
    first = NOTHING
    for piece in _pieces(parts, rows):
        if first.t_s + piece.t_s / 2 > total.t_s / 2:
            break
        first = first.plus(piece)
    second = total.minus(first)
    if first.t_s < total.t_s / 4 or second.t_s < total.t_s / 4:
        return ""  # one row covers most of it: there are no halves to compare
    before, after = first.ticks / first.t_s, second.ticks / second.t_s
    if max(before, after) < DRIFT_RATIO * min(before, after):
        return ""
    return f"unsteady: {before:.3g} ticks/s in the first half, {after:.3g} in the second; shown is the mean"


def _pieces(parts: Sequence[Span], rows: list[Sums]) -> Iterator[Sums]:
    """The parts cut at every row that was written."""
    times = [row.t_s for row in rows]
    for part in parts:
        within = rows[bisect_right(times, part.start.t_s) : bisect_left(times, part.end.t_s)]
        for earlier, later in pairwise([part.start, *within, part.end]):
            yield later.minus(earlier)


def _total(parts: Sequence[Span]) -> Sums:
    total = NOTHING
    for part in parts:
        total = total.plus(part.content)
    return total
