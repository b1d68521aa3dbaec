"""Which source lines the time went to.

Phases are timed exactly, lines are sampled: a line's share is the exact share of its phase, split by the
samples that fell into that phase. The phase `other`, the user's own code, is folded where its lines are many.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from stoker.diagnose.folding import fold
from stoker.model.record import PHASES, Line, Place, ProcessRecord, Sampled, Sums

_COMPREHENSIONS = tuple(f".<locals>.<{kind}>" for kind in ("listcomp", "setcomp", "dictcomp", "genexpr"))
_OF_THE_STEP = frozenset({"data", "env", "infer", "forward", "backward", "optim", "save"})
MIN_SAMPLES = 5
"""Fewer looks into a phase say nothing about its lines."""


@dataclass(frozen=True, slots=True)
class LineShare:
    phase: str
    place: Place
    pct: float
    samples: int
    exact: bool = False
    count: int | None = None
    inclusive: bool = False
    """Small lines it calls are counted in."""
    waits_frac: float = 0.0
    """Of the looks: the thread waited for another process."""
    computes: int | None = None
    """Looks at a jump or the beginning of a function: it computes in Python itself. None: not told."""
    under: tuple[Line, ...] = ()
    """Lines that had called it at every look, from the inside out."""


def line_shares(record: ProcessRecord, window: Sums) -> list[LineShare]:
    """Lines of the train stage, costliest first. Device waits and copies carry their exact time."""
    shares = _sampled(record, window) + _measured(record, window)
    return sorted(shares, key=lambda share: -share.pct)


def _sampled(record: ProcessRecord, window: Sums) -> list[LineShare]:
    stage = "train" if any(sample.stage == "train" for sample in record.sampled) else "startup"
    measured = {blocking.phase for blocking in record.blocking if blocking.stage == "train"}
    looks: dict[str, list[Sampled]] = defaultdict(list)
    for sample in record.sampled:
        if sample.stage == stage and sample.phase not in measured:
            looks[sample.phase].append(sample)
    return [share for phase, found in looks.items() for share in _lines_of(found, phase, pct(window, phase))]


def _lines_of(samples: list[Sampled], phase: str, phase_pct: float) -> list[LineShare]:
    total = sum(sample.count for sample in samples)
    if total < MIN_SAMPLES:
        return []
    depths = _folded(samples) if phase == "other" else {}
    counts: dict[Place, int] = defaultdict(int)
    waits: dict[Place, int] = defaultdict(int)
    computes: dict[Place, int | None] = defaultdict(int)
    under: dict[Place, tuple[Line, ...]] = {}
    inclusive: set[Place] = set()
    for sample in samples:
        depth = depths.get(stack_of(sample), 0)
        place = _place_at(sample, depth)
        counts[place] += sample.count
        waits[place] += sample.waits
        before = computes[place]
        computes[place] = None if before is None or sample.computes is None else before + sample.computes
        callers = tuple(dict.fromkeys(stack_of(sample)[depth + 1 :]))
        under[place] = tuple(line for line in under.get(place, callers) if line in callers)
        if depth:
            inclusive.add(place)
    return [
        LineShare(
            phase,
            place,
            phase_pct * count / total,
            count,
            inclusive=place in inclusive,
            waits_frac=waits[place] / count,
            computes=computes[place],
            under=under[place],
        )
        for place, count in counts.items()
    ]


def call_site(record: ProcessRecord, phase: str) -> Place | None:
    """Where the model is called from, most often: the line outside of its `forward`, as torch has modules
    name what their call runs. None where too few looks fell into the phase."""
    looks = [sample for sample in record.sampled if sample.stage == "train" and sample.phase == phase]
    counts: dict[Line, int] = defaultdict(int)
    for sample in looks:
        if stack := stack_of(sample):
            counts[_outside_forward(stack)] += sample.count
    if sum(counts.values()) < MIN_SAMPLES:
        return None
    line = max(counts, key=counts.__getitem__)
    return Place(line, line)


def lines_of_the_step(record: ProcessRecord) -> frozenset[Line]:
    """Every line that was seen to lead to the model, an environment or a batch: what is under one of the
    others is a piece of code by itself."""
    looks = (one for one in record.sampled if one.stage == "train" and one.phase in _OF_THE_STEP)
    return frozenset(line for look in looks for line in stack_of(look))


def is_forward(line: Line) -> bool:
    """Before Python 3.11 code does not know its class."""
    return line[2] == "forward" or line[2].endswith(".forward")


def _outside_forward(stack: tuple[Line, ...]) -> Line:
    inner = [depth for depth, line in enumerate(stack) if is_forward(line)]
    return stack[min(inner[-1] + 1, len(stack) - 1)] if inner else stack[0]


def _folded(samples: list[Sampled]) -> dict[tuple[Line, ...], int]:
    stacks: dict[tuple[Line, ...], int] = defaultdict(int)
    for sample in samples:
        if stack := stack_of(sample):
            stacks[stack] += sample.count
    return fold(stacks)


def stack_of(sample: Sampled) -> tuple[Line, ...]:
    """From the inside out; a comprehension is part of the line it stands in."""
    if sample.place.leaf is None:
        return ()
    lines = [_named(line) for line in (sample.place.leaf, *sample.callers)]
    return tuple(line for line, outer in pairwise([*lines, None]) if line is not None and line != outer)


def _place_at(sample: Sampled, depth: int) -> Place:
    stack, user = stack_of(sample), sample.place.user
    if not stack:
        return sample.place
    line = stack[depth]
    named = _named(user) if user else None
    return Place(line, line if named in stack[:depth] else named)  # of a deep stack the outermost are missing


def _named(line: Line) -> Line:
    """A comprehension has the name of the function it is part of, as it has from Python 3.12 on."""
    path, number, function = line
    for suffix in _COMPREHENSIONS:
        function = function.removesuffix(suffix)
    return (path, number, function)


def _measured(record: ProcessRecord, window: Sums) -> list[LineShare]:
    """Their sums run over the whole train stage: scaled to the window by their phase."""
    trained = [blocking for blocking in record.blocking if blocking.stage == "train"]
    total_s: dict[str, float] = defaultdict(float)
    for b in trained:
        total_s[b.phase] += b.total_s
    return [
        LineShare(
            b.phase, b.place, pct(window, b.phase) * b.total_s / total_s[b.phase], b.count, True, b.count
        )
        for b in trained
        if total_s[b.phase]
    ]


def pct(window: Sums, phase: str) -> float:
    return 100.0 * window.phase_s[PHASES.index(phase)] / window.t_s if window.t_s > 0 else 0.0


def shown(place: Place, cwd: str = "", room: int | None = None) -> str:
    """`buffers.py:120 sample`, and for a library's line also the user's that led there. Where that is too
    long, the folders of the library's file are left out, then more of it, the user's last."""
    leaf, user = place.leaf, place.user
    if leaf is None:
        return "outside Python code"
    text = _short(leaf, cwd)
    if user is None or user == leaf:
        return text
    led = f" < {_short(user, cwd)}"
    if room is not None and len(text + led) > room:
        text = text.rpartition(os.sep)[2]
        left = room - len(led)
        text = text if len(text) <= left else f"{text[: max(0, left - 1)]}…"
    return text + led


def _short(line: Line, cwd: str) -> str:
    path, number, function = line
    name = function.rsplit(".<locals>.", 1)[-1]
    return f"{_short_path(path, cwd)}:{number} {name}"


def _short_path(path: str, cwd: str) -> str:
    for marker in (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"):
        if marker in path:
            return path.rsplit(marker, 1)[1]
    if cwd and path.startswith(cwd + os.sep):
        return path[len(cwd) + 1 :]
    return os.path.basename(path)
