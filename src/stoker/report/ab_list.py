"""Comparisons in a list: one line each, and the same for programs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from stoker.report.figures import duration, size
from stoker.report.page import Table
from stoker.trials.ab.plan import AS_IT_IS, Plan
from stoker.trials.ab.session import Ended
from stoker.trials.ab.sessions import Listed, as_ended, short_name
from stoker.trials.ab.statistics import Outcome

_COLUMNS = ("ab", "started", "took", "verdict", "size", "B / A: command")


def table(items: Sequence[Listed]) -> Table:
    """`items`: oldest first; the newest is shown first."""
    return Table("", _COLUMNS, tuple(_row(item) for item in reversed(items)), frozenset({2, 4}))


def _row(item: Listed) -> tuple[str, ...]:
    name, space = short_name(item.folder), size(item.size_bytes)
    if item.session is None:
        return (name, "", "", "?", space, f"(unreadable) {item.folder.name}")
    ended = as_ended(item.session)
    took_s = sum(one.took_s for one in ended.measures)
    started, verdict = _started(item.folder), _verdict(item, ended)
    return (name, started, duration(took_s) if took_s else "", verdict, space, _what(ended.plan))


def _started(folder: Path) -> str:
    """From its name, which begins with the time."""
    try:
        return time.strftime("%m-%d %H:%M", time.strptime(folder.name[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return ""


def _verdict(item: Listed, ended: Ended) -> str:
    if item.running:
        return "running"
    if ended.stopped:
        return "no end"
    found = ended.answer
    known = found.estimate is not None and found.outcome in (Outcome.WIN, Outcome.LOSS, Outcome.SAME)
    return f"{found.outcome} x{found.estimate.ratio:.3g}" if known and found.estimate else found.outcome


def _what(plan: Plan) -> str:
    """What differs first: the command may be long."""
    a = "" if plan.a.label == AS_IT_IS else f" / {plan.a.label}"
    if plan.a.label == plan.b.label and plan.a.command != plan.b.command:
        return f"{_short(plan.b.command)} / {_short(plan.a.command)}"
    return f"{plan.b.label}{a}: {_short(plan.b.command)}"


def _short(command: Sequence[str]) -> str:
    """Without the path of its first word."""
    return shlex.join([Path(command[0]).name, *command[1:]]) if command else ""


def entry(item: Listed) -> dict[str, object]:
    """For programs."""
    ended = as_ended(item.session) if item.session is not None else None
    return {
        "id": item.folder.name,
        "folder": str(item.folder),
        "readable": ended is not None,
        "alive": item.running,
        "size_bytes": item.size_bytes,
        "verdict": ended.answer.outcome.value if ended and not ended.stopped else None,
        "trials": len(ended.measures) if ended else None,
        "a": ended.plan.a.label if ended else None,
        "b": ended.plan.b.label if ended else None,
        "command": list(ended.plan.b.command) if ended else None,
    }
