"""Figures as text: one place for how many digits, and for what is not known."""

from __future__ import annotations

import signal

UNKNOWN = "?"


def duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def milliseconds(value: float | None) -> str:
    return "not measured" if value is None else duration(value / 1000)


def percent(fraction: float | None) -> str:
    return "not measured" if fraction is None else f"{100 * fraction:.0f} %"


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


def counted(count: float, noun: str, plural: str = "") -> str:
    """`1 run`, `3 runs`, `0.5 updates`."""
    number = f"{count:,.4g}" if count < 1000 else f"{count:,.0f}"
    return f"{number} {noun if count == 1 else plural or noun + 's'}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
