"""Losses in a log that went to NaN, to infinity or through the roof, though nothing complained."""

from __future__ import annotations

import math
import re
from statistics import median

_LOSS = re.compile(
    r"\b\w*loss\w*\b[\"']?\s*[=:\s]\s*\(?(?P<value>[-+]?(?:nan|inf|\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+))\b",
    re.I,
)
_LAST = 3
_ROOF = 1000.0
"""Times the size at the beginning: no schedule does that."""


def gone_wrong(log_tail: str) -> str:
    """The line that shows it; empty where the last losses are numbers like the first."""
    found = [
        (line.strip(), match["value"]) for line in log_tail.splitlines() if (match := _LOSS.search(line))
    ]
    if not found:
        return ""
    values = [float(value) for _, value in found]
    last = values[-_LAST:]
    if not all(map(math.isfinite, last)):
        return next(line for (line, _), value in zip(found, values, strict=True) if not math.isfinite(value))
    first = [abs(value) for value in values[: max(3, len(values) // 4)] if math.isfinite(value)]
    if len(values) < 2 * _LAST or not first:
        return ""
    limit = _ROOF * max(median(first), 1e-3)
    return found[-1][0] if all(abs(value) > limit for value in last) else ""
