"""Many small lines, told by the few that lead to them.

The user's own Python may be spread over dozens of lines of a few per cent each. A line that is too small to
matter is folded into the line that called it, the smallest first, until three lines tell most of the time;
one that others may still be folded into waits for them. Large lines stay what they are. Lines that everything
comes through (`main()`, `model.learn()`) tell nothing and are never folded into.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from stoker.model.record import Line

TOLD_BY = 3
TOLD_MIN = 0.8

Stack = tuple[Line, ...]
"""From the inside out."""


def fold(looks: Mapping[Stack, int]) -> dict[Stack, int]:
    """For each stack how many of its innermost lines are folded away."""
    limits = {stack: len(stack) - 1 for stack in looks}
    shared = _shared(list(looks))
    depths = dict.fromkeys(looks, 0)
    while True:
        groups: dict[Line, list[Stack]] = defaultdict(list)
        for stack, depth in depths.items():
            groups[stack[depth]].append(stack)
        sizes = {line: sum(looks[stack] for stack in stacks) for line, stacks in groups.items()}
        if told_frac(list(sizes.values())) >= TOLD_MIN:
            return depths
        movable = [
            line
            for line, stacks in groups.items()
            if any(depths[stack] < limits[stack] - shared for stack in stacks)
        ]
        awaited = {line for stack, depth in depths.items() for line in stack[depth + 1 :]}
        ripe = [line for line in movable if line not in awaited] or movable
        if not ripe:
            return depths
        for stack in groups[min(ripe, key=lambda line: (sizes[line], line))]:
            if depths[stack] < limits[stack] - shared:
                depths[stack] += 1


def told_frac(counts: Sequence[int]) -> float:
    """What the largest few have of all."""
    total = sum(counts)
    return sum(sorted(counts, reverse=True)[:TOLD_BY]) / total if total else 1.0


def _shared(stacks: list[Stack]) -> int:
    """Outermost lines that all have in common."""
    count = 0
    while len({stack[-1 - count] if count < len(stack) else None for stack in stacks}) == 1:
        if any(count >= len(stack) - 1 for stack in stacks):
            break
        count += 1
    return count
