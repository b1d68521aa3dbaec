"""attempts.json: every setting a long cycle tried for one case, also those that failed."""

from __future__ import annotations

import json

from stoker.ingest.case_table import row_from
from stoker.ingest.source import Ledger, Reading, Source
from stoker.model.evidence import CaseRow


def recognise(source: Source) -> bool:
    return source.head.lstrip()[:1] == "[" and '"final_ok"' in source.head and '"num_envs"' in source.head


def read(source: Source) -> Reading:
    ledger = Ledger()
    try:
        entries = json.loads(source.text())
    except (ValueError, RecursionError) as error:
        entries, number = _whole_entries(source.text()), getattr(error, "lineno", 1)
        ledger.add(
            number, f"not valid JSON; the {len(entries)} whole attempts before it were read", str(error)
        )
    return Reading(tuple(_rows(entries, ledger, source.path.parent.name)), ledger)


def _whole_entries(text: str) -> list[object]:
    """What a writer that was killed had finished: objects one after the other until one does not parse."""
    entries: list[object] = []
    decoder, position = json.JSONDecoder(), text.find("[") + 1
    while True:
        start = text.find("{", position)
        if start < 0:
            return entries
        try:
            entry, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return entries
        entries.append(entry)


def _rows(entries: object, ledger: Ledger, folder: str) -> list[CaseRow]:
    rows = []
    for index, entry in enumerate(entries if isinstance(entries, list) else [], start=1):
        if not isinstance(entry, dict):
            ledger.add(index, "an attempt that is not an object", repr(entry))
            continue
        cells = {str(key): _text(value) for key, value in entry.items()}
        cells.setdefault("case", folder)
        rows.append(row_from(index, cells))
    return rows


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None or isinstance(value, list | dict) else str(value)
