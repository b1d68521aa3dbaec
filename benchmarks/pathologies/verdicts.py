"""What `stoker why --json` said of a run, as the figures of a row; and whether it named the planted line."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cases import Case, Task, alternatives, planted_lines

Row = dict[str, Any]
CROWDED = "SK504"
"""Of the machine the lab runs on, and as true of a control: scored only where it was planted."""
RECORDED_ROOT = "/lab"
"""What a recording calls the root of the repository."""


def planned(case: Case, dose: int, fixed: bool) -> Row:
    """What is known of a run before it."""
    planted = not (case.healthy or fixed or not dose)
    row: Row = {"name": case.name, "half": case.half, "dose": dose, "fixed": fixed}
    return row | {
        "control": case.healthy,
        "expected": case.expected if planted else "",
        "planted": None,
        "line": None,
    }


def planned_task(task: Task) -> Row:
    return planned(task.case, task.dose, task.fixed)


def failed(error: object) -> Row:
    nothing = {"outcome": "failed", "codes": [], "ceilings": [], "ticks_per_s": 0.0}
    return {**nothing, "failed": repr(error)[:300]}


def said(why: dict[str, Any], case: Case, expected: str, root: Path | None = None) -> Row:
    """`root`: where the repository lies, if the run was recorded in another place."""
    verdict, trainers = why["verdict"], why["trainers"]
    found = verdict["findings"] if verdict["outcome"] in ("causes", "not fixable in code") else []
    worth = [one for one in found if one["code"] != CROWDED or CROWDED in expected]
    trainer, host = trainers[0] if trainers else {"phase_pct": {}}, why["host"] or {}
    named = next(
        (one for one in worth if any(one["code"] in codes for codes in alternatives(expected))), None
    )
    return {
        "outcome": verdict["outcome"],
        "text": verdict["text"],
        "codes": [one["code"] for one in worth],
        "ceilings": [one["ceiling"] for one in worth],
        "line": _line(worth[0]) if worth else None,
        "planted": _planted(case, named, root) if named else None,
        "phase_pct": {phase: round(pct, 1) for phase, pct in trainer["phase_pct"].items() if abs(pct) >= 1},
        "gpu": _gpu(trainer.get("gpu")),
        "deep": _deep(trainer.get("deep")),
        "crowded": len(worth) < len(found),
        "allowed_cpu_pct": host.get("allowed_cpu_pct"),
        "load_1m": os.getloadavg()[0],
    }


def _gpu(gpu: dict[str, Any] | None) -> dict[str, Any] | None:
    """All that the rules were told of it, to see afterwards why they said what they said."""
    return None if gpu is None else {name: value for name, value in gpu.items() if name != "deep"}


def _deep(note: dict[str, Any] | None) -> str | None:
    if note is None:
        return None
    return " ".join(filter(None, [note["state"], note["why"]]))


def _line(finding: dict[str, Any]) -> str | None:
    leaf = (finding["place"] or {}).get("leaf")
    return f"{Path(leaf[0]).name}:{leaf[1]} {leaf[2]}" if leaf else None


def _planted(case: Case, finding: dict[str, Any], root: Path | None) -> str | None:
    """`line`, `function` or `elsewhere`; None where this cause names no line. Where it costs, or where the
    change is made."""
    places = [place for place in (finding["place"], finding.get("mend_at")) if place]
    spots = [_here(spot, root) for place in places for spot in (place["leaf"], place["user"]) if spot]
    lines_of = planted_lines(case)
    if not spots or not lines_of:
        return None
    if any((Path(spot[0]).name, spot[1]) in lines_of for spot in spots):
        return "line"
    return "function" if _same_function(spots, lines_of, case) else "elsewhere"


def _here(spot: list[Any], root: Path | None) -> list[Any]:
    path = Path(spot[0])
    if root is None or not path.is_relative_to(RECORDED_ROOT):
        return spot
    return [str(root / path.relative_to(RECORDED_ROOT)), *spot[1:]]


def _same_function(spots: Iterable[Any], wanted: Iterable[tuple[str, int]], case: Case) -> bool:
    for path in {spot[0] for spot in spots if Path(spot[0]).parent == case.script.parent}:
        tree = ast.parse(Path(path).read_text("utf-8"))
        for node in (one for one in ast.walk(tree) if isinstance(one, (ast.FunctionDef, ast.Lambda))):
            first, last = node.lineno, node.end_lineno or node.lineno
            marked = any(name == Path(path).name and first <= line <= last for name, line in wanted)
            if marked and any(spot[0] == path and first <= spot[1] <= last for spot in spots):
                return True
    return False
