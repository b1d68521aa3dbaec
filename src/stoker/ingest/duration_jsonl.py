"""JSON lines of a trainer that says how long each stretch took: `step`, `duration`, and a `mode`."""

from __future__ import annotations

import json
from array import array

from stoker.ingest.source import MAX_LINE_CHARS, Ledger, Reading, Source, json_number
from stoker.model.evidence import DurationLog


def recognise(source: Source) -> bool:
    return any(
        line.startswith("{") and '"duration"' in line and '"step"' in line
        for line in source.head.split("\n")[:50]
    )


def read(source: Source) -> Reading:
    ledger = Ledger()
    logs: dict[str, DurationLog] = {}
    for line, text in source.lines():
        if text.strip():
            _row(line, text, logs, ledger)
    return Reading(tuple(log for log in logs.values() if log.steps), ledger)


def _row(line: int, text: str, logs: dict[str, DurationLog], ledger: Ledger) -> None:
    row = _object(text)
    step, duration = (json_number(row.get(key)) for key in ("step", "duration")) if row else (None, None)
    if row is None or step is None:
        ledger.add(line, "not a JSON object with a `step`", text)
        return
    mode = str(row.get("mode", "train"))
    log = logs.setdefault(mode, DurationLog(line, mode, array("d"), array("d")))
    if duration is None or duration < 0:
        if "duration" in row:
            ledger.add(line, "`duration` is not a time", text)
        return
    log.steps.append(step)
    log.duration_s.append(duration)


def _object(text: str) -> dict[str, object] | None:
    try:
        row = json.loads(text) if len(text) < MAX_LINE_CHARS else None
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
