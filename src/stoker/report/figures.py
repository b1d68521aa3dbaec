"""Figures as text: one place for how many digits, and for what is not known."""

from __future__ import annotations

UNKNOWN = "?"


def shown(value: float | None, digits: int = 1) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def pair(values: tuple[float | None, ...], digits: int = 0) -> str:
    """`4826/5480`, one figure per GPU."""
    return "/".join(shown(value, digits) for value in values) if values else UNKNOWN


def seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if value >= 7200:
        return f"{value / 3600:.1f} h"
    return f"{value:.0f} s" if value >= 10 or value == int(value) else f"{value:.2f} s"


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
