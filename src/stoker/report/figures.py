"""Numbers as people read them."""

from __future__ import annotations

import signal


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


def counted(count: float, noun: str) -> str:
    """`1 run`, `3 runs`, `0.5 updates`."""
    return f"{count:,.4g} {noun}{'' if count == 1 else 's'}" if count < 1000 else f"{count:,.0f} {noun}s"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
