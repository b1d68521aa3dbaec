"""Which part of a process's life is training, and which part of that is steady.

Stages come from marks written by the process itself. The warm-up is cut, and the rest judged, by
`stoker.diagnose.steady`: from every tick where they can be had, else from a row a second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from stoker.diagnose.labels import moment
from stoker.diagnose.pace import Pace, of_rows, of_ticks
from stoker.diagnose.steady import Steadiness, Verdict, judge, warmup_samples
from stoker.model.record import NOTHING, Mark, ProcessRecord, Sums, Tick, TickTimes

MISSING_FRAC, MISSING_S = 0.02, 1.5
"""The files of ticks may lack as much of the train stage, by share and by time, and still stand for it."""
LONG_WARMUP_FRAC = 0.25
KEPT_FRAC = 1 / 3
"""Of the train stage, but for the longest tick before: where less would be left, no warm-up is cut. (One
pause early in a short run may be longer than all of its ticks.)"""
KEPT_S = 2.0
"""With less than this nothing could be told at all."""
FIRST_TICKS, FIRST_LONG, FIRST_MATTERS_FRAC = 3, 3.0, 0.01
"""One of the first ticks that takes so many times the usual, and such a share of the training, is set-up:
what is made when it is first used (handles, plans, worker processes). It will not come again."""
COMPILING_FRAC, COMPILING_PAUSE_S = 0.1, 5.0
"""A row with as much torch.compile in it is compiling. The first compiling has ended when there was none for
as long as it took, and for as many seconds: what is compiled later is the training's own."""

_Piece = tuple[float, int, float]


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
    steadiness: Steadiness | None = None
    parts: tuple[tuple[float, float], ...] = ()
    """When it was: evaluations and deep windows lie between."""

    @property
    def seconds(self) -> float:
        return self.content.t_s

    @property
    def span(self) -> tuple[float | None, float | None]:
        """From its beginning to its end, with what lies between."""
        return (self.parts[0][0], self.parts[-1][1]) if self.parts else (None, None)


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


def begun_frac(stages_s: Mapping[str, float], stage: str) -> float:
    """Of the time since training began: start-up comes once, however long a run is."""
    begun_s = sum(stages_s.get(name, 0.0) for name in ("train", "warm-up", "save", "eval"))
    return stages_s.get(stage, 0.0) / begun_s if begun_s > 0 else 0.0


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
        saved_s = seconds.get("save", 0.0) - window.content.phase("save")
        seconds["warm-up"] = window.warmup_s - saved_s
        seconds["train"] -= seconds["warm-up"]
    return {stage: value for stage, value in seconds.items() if value > 0}


def training_window(record: ProcessRecord, periods: Sequence[float] = ()) -> Window:
    """`periods`: in ticks, of what is known to come back: epochs, rollouts, saves."""
    cut = spans(record)
    train = [span for span in cut if span.stage == "train"]
    if not train:
        return _without_ticks(cut)
    rows = [second.sums for second in record.seconds]
    whole = sum_of(train)
    found, start_s = _judged(record, train, rows, whole, periods)
    steady = [part for span in train if (part := _after(span, start_s, rows)) is not None]
    content = sum_of(steady)
    pause_s = max((tick.duration_s for tick in record.ticks if tick.end_s <= start_s), default=0.0)
    if content.t_s < max(KEPT_FRAC * (whole.t_s - pause_s), KEPT_S) or content.ticks < 2:
        remark = f"too short to cut a warm-up: {whole.ticks} ticks in {whole.t_s:.1f} s"
        return Window(whole, 0.0, remark, found, _times(train))
    warmup_s = whole.t_s - content.t_s
    return Window(content, warmup_s, _remark(found, warmup_s, whole.t_s), found, _times(steady))


def _judged(
    record: ProcessRecord, train: list[Span], rows: list[Sums], whole: Sums, periods: Sequence[float]
) -> tuple[Steadiness | None, float]:
    """What the ticks say, and when the warm-up ended."""
    compiled_s = _compiled_s(train, rows, whole)
    times = _all_ticks(record, whole)
    if times is not None:
        first = bisect_right(times.end_s, compiled_s)
        first += _set_up_ticks(times.duration_s[first:])
        pace = of_ticks(times.duration_s[first:])
        if pace is not None:
            found = judge(pace, periods)
            first += found.warmup_ticks
            return found, times.end_s[first - 1] if first else 0.0
    early_s = max(compiled_s, warmup_end_s(record.ticks))
    late = [part for span in train if (part := _after(span, early_s, rows)) is not None]
    pieces = [(end.t_s, end.ticks - start.ticks, end.t_s - start.t_s) for start, end in _pieces(late, rows)]
    by_rows: Pace | None = of_rows((ticks, seconds) for _, ticks, seconds in pieces)
    if by_rows is None:
        return None, early_s
    found = judge(by_rows, periods)
    return found, _time_of_tick(pieces, found.warmup_ticks) if found.warmup_ticks else early_s


def _compiled_s(train: list[Span], rows: list[Sums], whole: Sums) -> float:
    """When the first compiling had ended; 0 where there was none, or too little came after it."""
    end_s, done_s, passed_s = 0.0, 0.0, 0.0
    for start, end in _pieces(train, rows):
        piece = end.minus(start)
        if piece.phase("compile") >= COMPILING_FRAC * piece.t_s > 0:
            if passed_s - done_s > max(done_s, COMPILING_PAUSE_S):
                break
            end_s, done_s = end.t_s, passed_s + piece.t_s
        passed_s += piece.t_s
    return end_s if whole.t_s - done_s >= KEPT_FRAC * whole.t_s else 0.0


def _set_up_ticks(durations_s: Sequence[float]) -> int:
    """How many at the beginning are not like the rest because they are the first."""
    if len(durations_s) <= FIRST_TICKS:
        return 0
    long_s = max(FIRST_LONG * median(durations_s), FIRST_MATTERS_FRAC * sum(durations_s))
    return max((n for n in range(1, FIRST_TICKS + 1) if durations_s[n - 1] > long_s), default=0)


def _all_ticks(record: ProcessRecord, whole: Sums) -> TickTimes | None:
    """None where the files do not have the whole train stage."""
    first = TickTimes([tick.end_s for tick in record.ticks], [tick.duration_s for tick in record.ticks])
    for times in (record.tick_times, first):
        if times is None or not times.duration_s or whole.ticks <= 0 or whole.t_s <= 0:
            continue
        missing = max(MISSING_FRAC, MISSING_S / whole.t_s)
        covers = abs(sum(times.duration_s) / whole.t_s - 1) <= missing
        whole_count = abs(len(times.duration_s) / whole.ticks - 1) <= missing
        if covers and whole_count and min(times.duration_s) >= 0:
            return times
    return None


def _time_of_tick(pieces: list[_Piece], tick: int) -> float:
    done = 0
    for end_s, ticks, _ in pieces:
        done += ticks
        if done >= tick:
            return end_s
    return 0.0


def _remark(found: Steadiness | None, warmup_s: float, whole_s: float) -> str:
    if found is None:
        return ""
    if found.verdict is Verdict.UNSTEADY:
        return f"{found.phrase}: {found.seen}; {found.help}"
    if found.verdict is Verdict.SCREENING:
        return f"screening only: {found.help}"
    if warmup_s > LONG_WARMUP_FRAC * whole_s:
        return f"the first {moment(warmup_s)} ran at another speed and are left out"
    return ""


def _without_ticks(cut: list[Span]) -> Window:
    remark = "no optimizer step was seen: this is everything since the start"
    return Window(sum_of(cut), 0.0, remark, None, _times(cut))


def _times(parts: Sequence[Span]) -> tuple[tuple[float, float], ...]:
    return tuple((part.start.t_s, part.end.t_s) for part in parts)


def warmup_end_s(ticks: Sequence[Tick]) -> float:
    """The end of the last tick that belongs to the warm-up; 0 where there is none."""
    index, _ = warmup_samples([tick.duration_s for tick in ticks])
    return ticks[index - 1].end_s if index else 0.0


def _after(span: Span, start_s: float, rows: list[Sums]) -> Span | None:
    """The part of a span after a moment, cut at the next row that was written."""
    if span.start.t_s >= start_s:
        return span
    later = next((row for row in rows if start_s <= row.t_s < span.end.t_s), None)
    return Span(span.stage, later, span.end) if later is not None else None


def _pieces(parts: Sequence[Span], rows: list[Sums]) -> Iterator[tuple[Sums, Sums]]:
    """The parts cut at every row that was written: where each piece begins and ends."""
    times = [row.t_s for row in rows]
    for part in parts:
        within = rows[bisect_right(times, part.start.t_s) : bisect_left(times, part.end.t_s)]
        yield from pairwise([part.start, *within, part.end])


def sum_of(parts: Sequence[Span]) -> Sums:
    total = NOTHING
    for part in parts:
        total = total.plus(part.content)
    return total
