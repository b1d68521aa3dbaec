"""A window the user chose, by a gate or by figures, with the statistics people quote for one."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, pstdev

from stoker.diagnose.gate import Gate, NumberedTick
from stoker.diagnose.iteration import find_iteration
from stoker.diagnose.window import Window
from stoker.errors import UsageError
from stoker.model.record import PHASES, ProcessRecord, Tick

GAP_S = 30.0
"""Ticks further apart than this come from two files, the first minute and the last ones of a long run."""
ROLLOUTS_MIN = 3
ROWS_MIN = 3
"""Seconds of a quoted window, from which on its phases are told from the rows."""
CLOCK_S = 2e-6
"""Ticks are written in whole microseconds."""

_NUMBER = r"(\d+(?:\.\d+)?)"
_LENGTH = re.compile(rf"^{_NUMBER}s$")
_SECONDS = re.compile(rf"^{_NUMBER}s?\.\.{_NUMBER}s$")
_TICKS = re.compile(r"^(\d+)\.\.(\d+)$")


@dataclass(frozen=True, slots=True)
class Bounds:
    """`60s` has a length only: it begins where the gate opens, else after the warm-up."""

    text: str
    length_s: float | None = None
    seconds: tuple[float, float] | None = None
    ticks: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Quoted:
    ticks: int
    first_tick: int
    last_tick: int
    from_s: float
    """Since the first tick."""
    to_s: float
    seconds: float
    """Sum of the ticks: evaluations between them do not count."""
    ticks_per_s: float
    samples_per_s: float | None
    env_steps_per_s: float | None
    """Ticks of this window, at what a tick brought in the steady one; None within a few rollouts."""
    mean_ms: float
    median_ms: float
    p95_ms: float
    cv_frac: float
    phase_pct: dict[str, float]
    held_frac: float | None
    """On how many of the ticks of which that can be told the gate's condition was true."""
    told_ticks: int
    """Of so many it can be told."""


@dataclass(frozen=True, slots=True)
class Chosen:
    gate: str | None
    window: str | None
    quoted: Quoted | None
    reason: str
    """Why there are no figures; or what to know about them."""


def parse_bounds(text: str) -> Bounds:
    if match := _LENGTH.match(text):
        if float(match[1]) > 0:
            return Bounds(text, length_s=float(match[1]))
    elif match := _SECONDS.match(text):
        if float(match[1]) < float(match[2]):
            return Bounds(text, seconds=(float(match[1]), float(match[2])))
    elif (match := _TICKS.match(text)) and int(match[1]) < int(match[2]):
        return Bounds(text, ticks=(int(match[1]), int(match[2])))
    raise UsageError(
        f"the window {text!r} cannot be understood",
        seen="neither a length above 0, nor seconds or ticks from a smaller to a larger number",
        hint="--window 60s, --window 60s..180s or --window 500..2000 (ticks)",
    )


def choose(
    record: ProcessRecord, window: Window, ticks: Sequence[Tick], gate: Gate | None, bounds: Bounds | None
) -> Chosen:
    """From the ticks that are in the files: the first minute and the last ten."""
    numbered = number_ticks(record, ticks)
    asked = (gate.text if gate else None, bounds.text if bounds else None)
    if not numbered:
        return Chosen(*asked, None, "no ticks are in the files of this run")
    within = _within(numbered, window, gate, bounds)
    if gate is not None:
        opened = gate.opens(within)
        if opened is None:
            return Chosen(*asked, None, _never_open(gate, within))
        within = within[opened:]
    if bounds is not None and bounds.length_s is not None:
        within = _for(within, bounds.length_s)
    if not within:
        return Chosen(*asked, None, f"no recorded tick lies there; in the files: {_what_is_there(numbered)}")
    return Chosen(*asked, _quoted(record, within, window, gate), _care(within, bounds))


def number_ticks(record: ProcessRecord, ticks: Sequence[Tick]) -> list[NumberedTick]:
    """Rows of a second count ticks exactly: after a gap the number comes from the next row."""
    if not ticks:
        return []
    rows = [(second.sums.t_s, second.sums.ticks) for second in record.seconds]
    ends = [tick.end_s for tick in ticks]
    start_s = next((mark.sums.t_s for mark in record.marks if mark.stage == "train"), ends[0])
    found: list[NumberedTick] = []
    number = _number(0, ends, rows) - 1
    for index, tick in enumerate(ticks):
        apart = index > 0 and tick.end_s - tick.duration_s - ends[index - 1] > GAP_S
        number = _number(index, ends, rows) if apart else number + 1
        found.append(NumberedTick(number, tick.end_s - start_s, tick))
    return found


def _number(index: int, ends: list[float], rows: list[tuple[float, int]]) -> int:
    at = bisect_left(rows, (ends[index] - CLOCK_S, -1))
    if at == len(rows):
        return max(1, (rows[-1][1] if rows else 0) + 1)
    row_s, ticks = rows[at]
    return max(1, ticks - (bisect_right(ends, row_s + CLOCK_S) - index) + 1)


def _within(
    numbered: list[NumberedTick], window: Window, gate: Gate | None, bounds: Bounds | None
) -> list[NumberedTick]:
    if bounds is not None and bounds.ticks is not None:
        low, high = bounds.ticks
        return [one for one in numbered if low < one.number <= high]
    if bounds is not None and bounds.seconds is not None:
        early, late = bounds.seconds
        return [one for one in numbered if early < one.time_s <= late]
    if gate is None:
        return [one for one in numbered if one.time_s > window.warmup_s]
    return numbered


def _for(within: list[NumberedTick], length_s: float) -> list[NumberedTick]:
    """By the clock, as a stopwatch has it."""
    if not within:
        return []
    start_s = within[0].time_s - within[0].tick.duration_s
    return [one for one in within if one.time_s <= start_s + length_s]


def _never_open(gate: Gate, ticks: list[NumberedTick]) -> str:
    if not ticks:
        return "no recorded tick lies there"
    best, told = gate.longest(ticks), len(gate.told(ticks))
    wanted = "" if gate.lasting == 1 else f"; at most {best} in a row fulfil it, {gate.lasting} are asked for"
    untold = "" if told == len(ticks) else f" (of {len(ticks) - told:,} its phases were not told apart)"
    return f"the gate never opened in {len(ticks):,} recorded ticks{untold}{wanted}"


def _what_is_there(numbered: list[NumberedTick]) -> str:
    edges = [numbered[0].number]
    for a, b in pairwise(numbered):
        if b.number != a.number + 1:
            edges += [a.number, b.number]
    edges.append(numbered[-1].number)
    return ", ".join(f"ticks {a:,} to {b:,}" for a, b in zip(edges[::2], edges[1::2], strict=True))


def _care(within: list[NumberedTick], bounds: Bounds | None) -> str:
    span_s = within[-1].time_s - within[0].time_s + within[0].tick.duration_s
    if any(b.number != a.number + 1 for a, b in pairwise(within)):
        return f"the files lack ticks in between: {_what_is_there(within)}"
    if bounds is not None and bounds.length_s is not None and span_s < 0.9 * bounds.length_s:
        return f"the ticks end after {span_s:.1f} s of {bounds.text}"
    return ""


def _updates_in_a_row(record: ProcessRecord) -> float:
    found = find_iteration(record.sequence)
    if found is None or not found.optimizer_steps:
        return 1.0
    return max(found.optimizer_steps.values()) / max(1, found.env_turns)


def _env_steps_per_s(within: list[NumberedTick], window: Window, in_a_row: float) -> float | None:
    """By the mean of a tick, so over whole rollouts only: within one some ticks have all the steps."""
    content = window.content
    if not content.env_steps or not content.ticks or len(within) < ROLLOUTS_MIN * in_a_row:
        return None
    seconds = sum(one.tick.duration_s for one in within)
    return content.env_steps / content.ticks * len(within) / seconds if seconds > 0 else None


def _quoted(record: ProcessRecord, within: list[NumberedTick], window: Window, gate: Gate | None) -> Quoted:
    took = [one.tick.duration_s for one in within]
    seconds, mean = sum(took), fmean(took)
    per_s = len(took) / seconds if seconds > 0 else 0.0
    held = gate.told(within) if gate else []
    content = window.content
    samples = content.samples * per_s / content.ticks if content.samples and content.ticks else None
    return Quoted(
        ticks=len(took),
        first_tick=within[0].number,
        last_tick=within[-1].number,
        from_s=within[0].time_s - took[0],
        to_s=within[-1].time_s,
        seconds=seconds,
        ticks_per_s=per_s,
        samples_per_s=samples,
        env_steps_per_s=_env_steps_per_s(within, window, _updates_in_a_row(record)),
        mean_ms=1e3 * mean,
        median_ms=1e3 * median(took),
        p95_ms=1e3 * sorted(took)[min(len(took) - 1, int(0.95 * len(took)))],
        cv_frac=pstdev(took) / mean if mean > 0 else 0.0,
        phase_pct=_phases_of_rows(record, within) or _phases_of_ticks(within),
        held_frac=fmean(held) if held else None,
        told_ticks=len(held),
    )


def _phases_of_rows(record: ProcessRecord, within: list[NumberedTick]) -> dict[str, float]:
    """Of the rows a second that lie in there: of all ticks, where the long ones are told apart and short ones
    seldom."""
    start_s, end_s = within[0].tick.end_s - within[0].tick.duration_s, within[-1].tick.end_s
    rows = [row for row in record.seconds if start_s <= row.sums.t_s <= end_s]
    pieces = [b.sums.minus(a.sums) for a, b in pairwise(rows) if a.stage == b.stage == "train"]
    seconds = sum(piece.t_s for piece in pieces)
    if len(pieces) < ROWS_MIN or seconds <= 0:
        return {}
    return {name: 100 * sum(piece.phase(name) for piece in pieces) / seconds for name in PHASES}


def _phases_of_ticks(within: list[NumberedTick]) -> dict[str, float]:
    """Of the ticks whose phases were told apart."""
    split = [(one.tick.duration_s, one.tick.phase_s) for one in within if one.tick.phase_s is not None]
    seconds = sum(duration_s for duration_s, _ in split)
    if seconds <= 0:
        return {}
    return {name: 100 * sum(phases[i] for _, phases in split) / seconds for i, name in enumerate(PHASES)}
