"""progress.json: how far a queue of cases has come."""

from __future__ import annotations

import json

from stoker.ingest.source import Ledger, Reading, Source, json_number
from stoker.model.evidence import Progress


def recognise(source: Source) -> bool:
    head = source.head.lstrip()
    return head[:1] == "{" and '"done"' in head and '"total"' in head and len(source.head) < 8192


def read(source: Source) -> Reading:
    ledger = Ledger()
    try:
        entry = json.loads(source.text())
    except (ValueError, RecursionError) as error:
        ledger.add(getattr(error, "lineno", 1), "not valid JSON", str(error))
        return Reading((), ledger)
    if not isinstance(entry, dict):
        ledger.add(1, "not an object", source.head)
        return Reading((), ledger)
    done, total = (json_number(entry.get(key)) for key in ("done", "total"))
    progress = Progress(
        None if done is None else int(done),
        None if total is None else int(total),
        str(entry.get("last_case", "")),
        str(entry.get("status", "")),
    )
    return Reading((progress,), ledger)
