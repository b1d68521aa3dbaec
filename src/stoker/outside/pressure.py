"""Pressure stall information: for how long somebody waited for a core, for memory, for a disk."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"^(some|full) .*\btotal=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pressure:
    some_s: float | None
    """Total time in which at least one task waited."""
    full_s: float | None
    """… in which all of them did."""


NOT_MEASURED = Pressure(None, None)


def parse(text: str) -> Pressure:
    """`/proc/pressure/*` or a cgroup's `*.pressure`; totals are in microseconds."""
    found = {kind: int(total) / 1e6 for kind, total in _LINE.findall(text)}
    return Pressure(found.get("some"), found.get("full"))
