"""case_manifest.tsv: which cases a bench was meant to run."""

from __future__ import annotations

from stoker.ingest import case_table
from stoker.ingest.source import Ledger, Reading, Source
from stoker.model.evidence import Manifest


def recognise(source: Source) -> bool:
    return (
        case_table.header_of(source, lambda names: {"case", "method", "mode", "env_config"} <= names)
        is not None
    )


def read(source: Source) -> Reading:
    ledger = Ledger()
    cases = []
    for _, cells in case_table.table(source, ledger):
        trains = cells.get("mode") == "train" and bool(cells.get("agent_config"))
        if cells.get("case"):
            cases.append((cells["case"], cells.get("method", ""), trains))
    return Reading((Manifest(tuple(cases)),), ledger)
