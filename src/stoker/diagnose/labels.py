"""Short words for many things: lists that end, configurations without what they share, moments, figures."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.model.evidence import LoopProfile


def label_of(profile: LoopProfile, among: Sequence[LoopProfile]) -> str:
    """Only the flags in which the profiles differ; all of them where none does."""
    flags = [set(other.configuration.split()) for other in among]
    own = [flag for flag in profile.configuration.split() if not all(flag in other for other in flags)]
    return " ".join(own) or profile.configuration or "loop"


def listed(names: Sequence[str], most: int = 4) -> str:
    """`a, b, c and 3 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def moment(seconds: float) -> str:
    """`41 s`, `41 min`, `9 h 36 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def figure(value: float) -> str:
    """`0.312`, `24.5`, `2,306`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
