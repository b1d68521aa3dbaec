"""log.txt of the on-policy trainer: wide columns, rows ended by a carriage return alone."""

from __future__ import annotations

from stoker.ingest.console_table import is_iteration, iteration_log, stage_of
from stoker.ingest.source import Ledger, Reading, Source, number


def recognise(source: Source) -> bool:
    names = source.head.split("\n", 1)[0].split()
    return names[:2] == ["Iteration", "Wall_Time"] and "Samples" in names


def read(source: Source) -> Reading:
    ledger = Ledger()
    names: list[str] = []
    rows: list[dict[str, float]] = []
    for line, text in source.lines():
        fields = text.split()
        if not names:
            names = fields
        elif fields:
            _row(line, text, fields, names, rows, ledger)
    if not rows:
        return Reading((), ledger, ("the header is there, no iteration is",))
    log = iteration_log(rows, frozenset(names), stage_of(source), complete=False)
    return Reading((log,), ledger)


def _row(
    line: int, text: str, fields: list[str], names: list[str], rows: list[dict[str, float]], ledger: Ledger
) -> None:
    values = {
        name: value
        for name, field in zip(names, fields, strict=False)
        if (value := number(field)) is not None
    }
    if len(fields) != len(names) or not is_iteration(values):
        ledger.add(line, f"{len(fields)} columns, the header has {len(names)}", text)
    else:
        rows.append(values)
