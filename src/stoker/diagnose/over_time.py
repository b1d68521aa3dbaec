"""How the budget changed in the course of a run: the train stage in stretches, and what changed, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stoker.diagnose.causes.taken import signals
from stoker.diagnose.causes.thresholds import CHANGE_FRAC
from stoker.diagnose.labels import moment
from stoker.diagnose.stretches import Stretch, cut, equal_edges, part_of
from stoker.diagnose.summary import Summary, Throughput, Trainer
from stoker.diagnose.turns import Course, Turn, course
from stoker.diagnose.verdict import verdict_on
from stoker.model.finding import Outcome, Verdict

STRETCHES_MAX, STRETCHES_MIN, STRETCHES_USUAL = 12, 5, 10
STRETCH_S, STRETCH_TICKS = 5.0, 10
"""At least as long: a row is written every second."""

ROW_S = 1.5
"""A change lies between two rows, and stretches are cut at rows."""
ALIKE_POINTS = 5.0
"""Between the shares of evaluations and saves, and between how busy the GPU is."""

ALIKE_FRAC = 0.8
"""Of two changes about as large the first is told: what came and went is told by its coming."""

_WAITS = {
    "data": "waiting for data",
    "env": "the environment",
    "infer": "the model without gradients",
    "h2d": "copying to the device",
    "forward": "the model's forward pass",
    "loss": "the loss",
    "backward": "the backward pass",
    "optim": "the optimizer",
    "sync": "waiting for the device",
    "save": "saving",
    "gc": "the garbage collector",
    "compile": "torch.compile",
    "other": "Python code outside the model",
}


@dataclass(frozen=True, slots=True)
class Period:
    """One stretch of the train stage. Times are seconds since it began."""

    from_s: float
    to_s: float
    seconds: float
    """Of training in it: without evaluations."""
    ticks: int
    throughput: Throughput
    phase_pct: dict[str, float]
    stages_s: dict[str, float]
    gpu_busy_pct: float | None
    gpu_real_work_pct: float | None
    gpu_idle_pct: float | None
    outcome: Outcome
    cause: str | None
    """The code of the leading cause."""
    cause_name: str | None
    says: str


@dataclass(frozen=True, slots=True)
class OverTime:
    sentence: str
    periods: tuple[Period, ...]
    cut_at: str
    """`equal parts`, or `changes of speed`."""
    course: Course | None
    started_s: float = 0.0
    """When the train stage began, on the clock of the run."""


def over_time(summary: Summary) -> OverTime:
    main = summary.main
    if main is None or not main.window.content.ticks:
        return OverTime("No training step was seen: there is nothing to follow.", (), "", None)
    found = course(main)
    edges, cut_at = _edges(main, found)
    stretches = cut(main.record, edges) if edges else []
    if len(stretches) < 2:
        return OverTime(_too_short(main), (), "", None)
    start_s = stretches[0].start_s
    verdicts = _Verdicts(summary, found, start_s, stretches[-1].end_s)
    periods = tuple(_period(summary, one, start_s, verdicts) for one in stretches)
    return OverTime(_sentence(found, periods, main), periods, cut_at, found, start_s)


def _too_short(main: Trainer) -> str:
    train_s = main.window.seconds + main.window.warmup_s
    ticks = main.record.last.ticks if main.record.last else 0
    return (
        f"{ticks:,} ticks in {train_s:.0f} s are too few to be followed over time: it takes "
        f"{STRETCHES_MIN} stretches of {STRETCH_S:.0f} s and {STRETCH_TICKS} ticks each."
    )


def _edges(main: Trainer, found: Course) -> tuple[list[float], str]:
    """At the changes of speed that the whole run shows, their stretches divided further; else equal parts."""
    train_s = main.window.seconds + main.window.warmup_s
    ticks = main.record.last.ticks if main.record.last else 0
    count = int(min(STRETCHES_USUAL, train_s / STRETCH_S, ticks / STRETCH_TICKS))
    if count < STRETCHES_MIN:
        return [], ""
    equal = equal_edges(main.record, count)
    jumps = [turn.at_s + equal[0] for turn in found.turns if not turn.gradual]
    if not jumps or len(jumps) >= STRETCHES_MAX:
        return equal, "equal parts"
    return _divided([equal[0], *jumps, equal[-1]], count), "changes of speed"


def _divided(edges: Sequence[float], count: int) -> list[float]:
    """Each part cut into equal ones, about `count` in all."""
    whole_s = edges[-1] - edges[0]
    spare = STRETCHES_MAX - (len(edges) - 1)
    found = [edges[0]]
    for start_s, end_s in pairwise(edges):
        pieces = max(1, min(round(count * (end_s - start_s) / whole_s), spare + 1))
        spare -= pieces - 1
        found += [start_s + (end_s - start_s) * number / pieces for number in range(1, pieces + 1)]
    return found


class _Verdicts:
    """Of stretches. Those between which nothing changed have one, from all they have together: each by itself
    lies now on this side of a threshold, now on that."""

    def __init__(self, summary: Summary, found: Course, start_s: float, end_s: float) -> None:
        self._whole = signals(summary)
        self._evens: list[tuple[float, float, Trainer, Verdict]] = []
        for from_s, to_s in _evens(found, start_s, end_s):
            part = part_of(summary, from_s, to_s)
            if part.main is not None:
                told = self._on(part) if found.turns else verdict_on(self._whole)
                self._evens.append((from_s - ROW_S, to_s + ROW_S, part.main, told))

    def of(self, stretch: Stretch, part: Summary) -> Verdict:
        for from_s, to_s, even, told in self._evens:
            within = from_s <= stretch.start_s and stretch.end_s <= to_s
            if within and part.main is not None and _stands_alike(part.main, even):
                return told
        return self._on(part)

    def _on(self, part: Summary) -> Verdict:
        """Ticks are in the files for the first minute and the last ones only: what is told from them is of
        the whole run."""
        found, whole = signals(part), self._whole
        return verdict_on(found if found is None or whole is None else found.with_edges_of(whole))


def _evens(found: Course, start_s: float, end_s: float) -> list[tuple[float, float]]:
    """From one moment of the run to another nothing changed."""
    if found.reason or any(turn.gradual for turn in found.turns):
        return []
    if not found.turns and found.speed_spread_frac / 2 > CHANGE_FRAC:
        return []
    edges = [start_s + found.from_s, *(start_s + turn.at_s for turn in found.turns), end_s]
    return list(pairwise(edges))


def _stands_alike(one: Trainer, other: Trainer) -> bool:
    """The course is of the training thread; in some of the stretches there may be more evaluations and saves
    between, or another program on the card."""
    found, rest = _beside(one), _beside(other)
    return all(abs(found.get(name, 0.0) - rest.get(name, 0.0)) < ALIKE_POINTS for name in {*found, *rest})


def _beside(one: Trainer) -> dict[str, float]:
    use = one.gpus.main
    busy = {"busy": use.budget.busy_pct} if use and use.budget.busy_pct is not None else {}
    return one.stage_pct | busy


def _period(summary: Summary, stretch: Stretch, start_s: float, verdicts: _Verdicts) -> Period:
    part = part_of(summary, stretch.start_s, stretch.end_s)
    main = part.main
    assert main is not None  # the stretch has training of it
    told = verdicts.of(stretch, part)
    use = main.gpus.main
    leading = _leading(told)
    return Period(
        from_s=stretch.start_s - start_s,
        to_s=stretch.end_s - start_s,
        seconds=main.window.seconds,
        ticks=main.window.content.ticks,
        throughput=main.throughput,
        phase_pct=main.phase_pct,
        stages_s=main.stages_s,
        gpu_busy_pct=use.budget.busy_pct if use else None,
        gpu_real_work_pct=use.budget.real_work_pct if use else None,
        gpu_idle_pct=use.budget.idle_pct if use else None,
        outcome=told.outcome,
        cause=leading[0],
        cause_name=leading[1],
        says=told.text,
    )


def _leading(told: Verdict) -> tuple[str | None, str | None]:
    if told.outcome not in (Outcome.CAUSES, Outcome.NOT_FIXABLE) or not told.findings:
        return None, None
    return told.findings[0].code, told.findings[0].name


def _sentence(found: Course, periods: Sequence[Period], main: Trainer) -> str:
    if found.reason:
        return f"{found.reason[0].upper()}{found.reason[1:]}."
    if not found.turns:
        after = f" after the warm-up of {moment(found.from_s)}" if found.from_s >= 1 else ""
        even = found.speed_spread_frac / 2 <= CHANGE_FRAC
        what = "Nothing changed" if even else "No change that lasted was found"
        return (
            f"{what}{after}: the speed stayed within ±{_digits(50 * found.speed_spread_frac)} %, "
            f"and no phase's share moved by more than {_digits(_largest_move(periods, found.from_s))} points."
        )
    most = max(map(_size, found.turns))
    largest = next(turn for turn in found.turns if _size(turn) >= ALIKE_FRAC * most)
    first = f"It changed {len(found.turns)} times; the largest change: " if len(found.turns) > 1 else ""
    text = first + _turn(largest, main)
    back = _until(largest, found.turns)
    return f"{text[0].upper()}{text[1:]}{back}."


def _size(turn: Turn) -> float:
    before_s, after_s = turn.tick_s()
    moved = abs(after_s - before_s)
    if turn.phase is None:
        return moved
    before, after = (one.phase(turn.phase) / one.ticks for one in (turn.before, turn.after))
    return max(moved, abs(after - before))


def _until(turn: Turn, turns: Sequence[Turn]) -> str:
    later = [other for other in turns if other.at_s > turn.at_s]
    return f", until {moment(later[0].at_s)}" if later else ""


def _turn(turn: Turn, main: Trainer) -> str:
    when = f"over {moment(turn.until_s - turn.at_s)}" if turn.gradual else f"from {moment(turn.at_s)} on"
    speed = _speed(turn, main)
    if turn.phase is None:
        return f"{when} {speed}, in all phases alike"
    before, after = (100 * one.phase(turn.phase) / one.t_s for one in (turn.before, turn.after))
    rose = "rose" if after > before else "fell"
    steadily = " little by little" if turn.gradual else ""
    share = (
        f"{_WAITS[turn.phase]} {rose}{steadily} from {_digits(before)} % to {_digits(after)} % of the time"
    )
    if round(before) == round(after):  # the others changed with it
        ms = [1e3 * one.phase(turn.phase) / one.ticks for one in (turn.before, turn.after)]
        share = f"{_WAITS[turn.phase]} went{steadily} from {ms[0]:.3g} to {ms[1]:.3g} ms a tick"
    return f"{when}, {share}, and {speed}"


def _speed(turn: Turn, main: Trainer) -> str:
    before_s, after_s = turn.tick_s()
    unit = f"{main.tick_kind.many}/s"
    if abs(after_s - before_s) < 0.01 * before_s:
        return f"the speed stayed at {1 / after_s:.3g} {unit}"
    fell = "fell" if after_s > before_s else "rose"
    return f"the speed {fell} from {1 / before_s:.3g} to {1 / after_s:.3g} {unit}"


def _largest_move(periods: Sequence[Period], from_s: float) -> float:
    """Over whole periods after the warm-up."""
    seen = [one for one in periods if one.from_s >= from_s] or list(periods)
    shares = ([one.phase_pct[name] for one in seen] for name in seen[0].phase_pct)
    return max(max(values) - min(values) for values in shares)


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
