"""allocation_profile.tsv: the settings a bench chose. It copies its own best_by_case.tsv, so it is no second
measurement; alone, it is all there is."""

from __future__ import annotations

from dataclasses import replace

from stoker.ingest import case_table
from stoker.ingest.source import Reading, Source
from stoker.model.evidence import CaseRow


def recognise(source: Source) -> bool:
    found = case_table.header_of(source, lambda names: {"case", "selection_reason", "score"} <= names)
    return found is not None and "elapsed_s" not in found[1]


def read(source: Source) -> Reading:
    reading = case_table.read(source)
    rows = tuple(replace(row, repeats_a_better_row=True) for row in reading.items if isinstance(row, CaseRow))
    return Reading(rows, reading.ledger)
