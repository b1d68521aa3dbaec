"""What changed in the course of a training, and when.

What a phase costs is seconds a tick, in blocks of equal length; where their mean jumps, something changed.
Shares alone would not do: when one phase gets slower, the shares of all the others fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, linear_regression, pvariance

from stoker.diagnose.causes.thresholds import CHANGE_BEYOND_FRAC, CHANGE_FRAC, CHANGE_OWN_FRAC
from stoker.diagnose.stretches import Stretch, cut, equal_edges
from stoker.diagnose.summary import Trainer
from stoker.diagnose.tick_stats import changes
from stoker.model.record import PHASES, Sums

BLOCKS_MAX, BLOCKS_MIN = 120, 6
EVENS_OF_A_RAMP = 4
"""Stretches between changes that all go one way: that is growth. Of fewer, a straight line may fit better."""
APART = 3
"""Blocks between two changes: each of them spoils the ones next to it."""
BLOCK_TICKS, BLOCK_S = 20, 2.0
"""A row a second cuts ticks in two: among as many that is little."""
SHORT_WARMUP = 0.15
"""Of the train stage: a longer lead at another speed is no mere warm-up, and is looked at like the rest."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From one moment on a tick took another time than before."""

    at_s: float
    """Since the train stage began."""
    until_s: float
    """When it changed again, or the end."""
    before: Sums
    after: Sums
    """The even stretches on both sides."""
    phase: str | None
    """Which most of the difference is in; None: in all of them alike."""
    gradual: bool = False

    def tick_s(self) -> tuple[float, float]:
        return self.before.t_s / self.before.ticks, self.after.t_s / self.after.ticks


@dataclass(frozen=True, slots=True)
class Course:
    turns: tuple[Turn, ...]
    """In the order of time; those too small to speak of are left out."""
    speed_spread_frac: float
    """Of the blocks: how far the ninth tenth lies from the first, as a share of the mean."""
    from_s: float
    """Since the train stage began: what lies before is warm-up and was not looked at."""
    reason: str = ""
    """Why nothing can be said."""


def course(main: Trainer) -> Course:
    warmup_s = main.window.warmup_s
    blocks = _blocks(main, warmup_s)
    if len(blocks) < BLOCKS_MIN:
        return Course((), 0.0, 0.0, "the training is too short, or its ticks too few, to say what changed")
    start_s = _train_start_s(main)
    tick_s = [block.content.t_s / block.content.ticks for block in blocks]
    turns = _turns(main, blocks, tick_s, start_s)
    return Course(tuple(turns), _spread(tick_s), blocks[0].start_s - start_s)


def _train_start_s(main: Trainer) -> float:
    edges = equal_edges(main.record, 1)
    return edges[0] if edges else 0.0


def _blocks(main: Trainer, warmup_s: float) -> list[Stretch]:
    """Each at least as long as what is known to repeat."""
    start_s = _train_start_s(main)
    train_s = main.window.seconds + warmup_s
    short = train_s > 0 and warmup_s <= SHORT_WARMUP * train_s
    steadiness = main.window.steadiness
    ticks = max(BLOCK_TICKS, (steadiness.period_ticks or 0.0) if steadiness else 0.0)
    content = main.window.content
    count = int(min(BLOCKS_MAX, content.ticks / ticks, content.t_s / BLOCK_S))
    if count < BLOCKS_MIN:
        return []
    edges = equal_edges(main.record, count, _after_warmup(main, start_s) if short else 0.0)
    return [block for block in cut(main.record, edges) if block.content.ticks > 0]


def _after_warmup(main: Trainer, start_s: float) -> float:
    parts = main.window.parts
    return parts[0][0] if parts else start_s


def _turns(main: Trainer, blocks: list[Stretch], tick_s: list[float], start_s: float) -> list[Turn]:
    mean_s = fmean(tick_s)
    cuts = sorted(_cuts(blocks, tick_s, mean_s))
    edges = [0, *cuts, len(blocks)]
    evens = [_joined(_inner(blocks[a:b], a > 0, b < len(blocks))) for a, b in pairwise(edges)]
    if ramp := _ramp(evens, blocks, edges, mean_s, start_s):
        return [ramp]
    found = []
    for index, (before, after) in enumerate(pairwise(evens)):
        phase, size = _what(before, after)
        if size < CHANGE_FRAC * mean_s:
            continue
        at = edges[index + 1]
        at_s = _moment(main, blocks[at - 1], blocks[at], phase)
        until_s = blocks[edges[index + 2] - 1].end_s
        found.append(Turn(at_s - start_s, until_s - start_s, before, after, phase))
    return found


def _cuts(blocks: list[Stretch], tick_s: list[float], mean_s: float) -> set[int]:
    """Of the tick as a whole and of each phase that could matter; cuts so near to each other that nothing of
    its own lies between them are one."""
    found: set[int] = set()
    for values in (tick_s, *(_per_tick(blocks, phase) for phase in PHASES)):
        if max(values) - min(values) < CHANGE_FRAC * mean_s:
            continue
        for at in changes(values):
            if not any(abs(at - other) < APART for other in found):
                found.add(at)
    return found


def _per_tick(blocks: Sequence[Stretch], phase: str) -> list[float]:
    return [block.content.phase(phase) / block.content.ticks for block in blocks]


def _inner(blocks: Sequence[Stretch], cut_before: bool, cut_after: bool) -> Sequence[Stretch]:
    """The change lies somewhere in the blocks next to it: they speak for neither side."""
    return blocks[int(cut_before) : len(blocks) - int(cut_after)]


def _joined(blocks: Sequence[Stretch]) -> Sums:
    whole = blocks[0].content
    for block in blocks[1:]:
        whole = whole.plus(block.content)
    return whole


def _what(before: Sums, after: Sums) -> tuple[str | None, float]:
    """The phase that changed most and by how much, in seconds a tick; no phase where it is all of them."""
    moved = {name: after.phase(name) / after.ticks - before.phase(name) / before.ticks for name in PHASES}
    whole = after.t_s / after.ticks - before.t_s / before.ticks
    top = max(moved, key=lambda name: abs(moved[name]))
    size = max(abs(moved[top]), abs(whole))
    alike = before.phase(top) / before.t_s * whole  # its part if all phases had changed in proportion
    own = abs(moved[top]) >= CHANGE_OWN_FRAC * size and abs(moved[top] - alike) >= CHANGE_BEYOND_FRAC * size
    return (top if own else None), size


def _ramp(
    evens: list[Sums], blocks: list[Stretch], edges: list[int], mean_s: float, start_s: float
) -> Turn | None:
    """Several steps in one direction are a drift; one or two are, where a straight line fits better."""
    paces = [even.t_s / even.ticks for even in evens]
    phase, size = _what(evens[0], evens[-1])
    if len(evens) < 2 or size < CHANGE_FRAC * mean_s or sorted(paces) not in (paces, paces[::-1]):
        return None
    values = _per_tick(blocks, phase) if phase else [one.content.t_s / one.content.ticks for one in blocks]
    if len(evens) < EVENS_OF_A_RAMP and _beside_a_line(values) >= _beside_steps(values, edges):
        return None
    tenth = -(-len(blocks) // 10)
    first, last = _joined(blocks[:tenth]), _joined(blocks[-tenth:])
    return Turn(blocks[0].start_s - start_s, blocks[-1].end_s - start_s, first, last, phase, gradual=True)


def _beside_a_line(values: Sequence[float]) -> float:
    """What it leaves over, squared."""
    slope, start = linear_regression(range(len(values)), values)
    return sum((value - start - slope * at) ** 2 for at, value in enumerate(values))


def _beside_steps(values: Sequence[float], edges: Sequence[int]) -> float:
    return sum(pvariance(values[a:b]) * (b - a) for a, b in pairwise(edges))


def _moment(main: Trainer, before: Stretch, after: Stretch, phase: str | None) -> float:
    """The row in these two blocks that divides them best."""
    rows = [s.sums for s in main.record.seconds if before.start_s <= s.sums.t_s <= after.end_s]
    pieces = [late.minus(early) for early, late in pairwise(rows)]
    if len(pieces) < 4:
        return after.start_s
    values = [(piece.phase(phase) if phase else piece.ticks) / max(piece.t_s, 1e-9) for piece in pieces]
    done = list(accumulate(values, initial=0.0))
    best, n = 1, len(values)
    most = 0.0
    for at in range(1, n):
        between = (done[at] / at - (done[n] - done[at]) / (n - at)) ** 2 * at * (n - at)
        if between > most:
            best, most = at, between
    return rows[best].t_s


def _spread(values: Sequence[float]) -> float:
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    mean = fmean(values)
    return (high - low) / mean if mean > 0 else 0.0
