"""Tables with one row per case: best_by_case.tsv in its four schemas, sweeps, and Markdown summaries.

Columns are found by name, so 20, 21, 24 or 43 of them are all the same to us; a blank is a missing figure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from stoker.ingest.source import Ledger, Reading, Source, is_absent, number, whole
from stoker.model.evidence import CaseRow, Setting, Stage, TimeBudget

_ALIASES = {
    "samples/s": "samples_per_s",
    "sps": "samples_per_s",
    "util": "min_avg_util",
    "mem_total": "memory_total",
}
_FIGURES = frozenset(
    {"min_avg_util", "avg_util0", "samples_per_s", "max_mem0", "train_ok", "final_ok", "probe_ok"}
)
_NUMERIC = (
    "num_envs",
    "elapsed_s",
    "samples",
    "samples_per_s",
    "avg_util0",
    "avg_util1",
    "min_avg_util",
    "max_util0",
    "max_util1",
    "max_mem0",
    "max_mem1",
    "long_budget_target_sec",
    "long_budget_elapsed_sec",
)
_DELIMITERS = ("\t", "|", ",")

Cells = dict[str, str]


def recognise(source: Source) -> bool:
    return header_of(source, lambda names: "case" in names and bool(_FIGURES & names)) is not None


def read(source: Source) -> Reading:
    ledger = Ledger()
    rows = tuple(_row(line, cells, ledger) for line, cells in table(source, ledger) if cells.get("case"))
    return Reading(rows, ledger)


def header_of(source: Source, wanted: Callable[[set[str]], bool]) -> tuple[str, list[str]] | None:
    """The delimiter and the column names, if one of the first lines is such a header."""
    for line in source.head.split("\n", 40)[:40]:
        for delimiter in _DELIMITERS:
            names = _cells(line, delimiter)
            if len(names) > 1 and wanted(set(names)):
                return delimiter, names
    return None


def table(source: Source, ledger: Ledger) -> Iterator[tuple[int, Cells]]:
    found = header_of(source, lambda names: "case" in names)
    if found is None:
        return
    delimiter, names = found
    inside = False
    for line, text in source.lines():
        values = _cells(text, delimiter, keep_case=True)
        if [_name(value) for value in values] == names:
            inside = True
        elif inside and text.strip() and not _is_rule(text):
            yield from _checked(line, text, names, values, ledger, delimiter)


def _checked(
    line: int, text: str, names: list[str], values: list[str], ledger: Ledger, delimiter: str
) -> Iterator[tuple[int, Cells]]:
    if delimiter == "|" and len(values) != len(names):
        return  # prose below a Markdown table
    if len(values) > len(names) or (len(values) < len(names) and not values[0]):
        ledger.add(line, f"{len(values)} columns, the header has {len(names)}", text)
        return
    if len(values) < len(names):
        ledger.add(line, f"cut short: {len(values)} of {len(names)} columns, the rest is missing", text)
    yield line, dict(zip(names, values, strict=False))


def _cells(line: str, delimiter: str, *, keep_case: bool = False) -> list[str]:
    text = line.strip().strip("|") if delimiter == "|" else line
    cells = [cell.strip().strip("`") for cell in text.split(delimiter)]
    return cells if keep_case else [_name(cell) for cell in cells]


def _name(cell: str) -> str:
    lowered = cell.lower()
    return _ALIASES.get(lowered, lowered)


def _is_rule(text: str) -> bool:
    return not text.strip("|-: \t")


def _row(line: int, cells: Cells, ledger: Ledger) -> CaseRow:
    for column in _NUMERIC:
        value = cells.get(column, "")
        if not is_absent(value) and number(value) is None:
            ledger.add(line, f"{column} is not a number", value)
    return row_from(line, cells)


def row_from(line: int, cells: Cells) -> CaseRow:
    """A row from cells by column name; also used for attempts, which have the same names as keys."""
    ok, status = _status(cells)
    return CaseRow(
        case=cells.get("case", ""),
        line=line,
        method=cells.get("method") or None,
        status=status,
        ok=ok,
        note=cells.get("note", ""),
        case_type=cells.get("case_type", ""),
        stage=_stage(cells),
        setting=Setting(
            cells.get("variant") or None, _positive(cells.get("num_envs")), cells.get("agent_config") or None
        ),
        mean_util_pct=_pair(cells, "avg_util"),
        min_avg_util_pct=_percent(cells.get("min_avg_util")),
        peak_util_pct=_pair(cells, "max_util"),
        peak_mem_mib=_pair(cells, "max_mem"),
        mem_total_mib=number(cells.get("memory_total")),
        samples_per_s=number(cells.get("samples_per_s")),
        samples=number(cells.get("samples")),
        elapsed_s=number(cells.get("elapsed_s")),
        budget=_budget(cells),
        selection_reason=cells.get("selection_reason", ""),
        base_agent=cells.get("base_agent", ""),
    )


def _status(cells: Cells) -> tuple[bool | None, str]:
    if "status" in cells:
        status = cells["status"]
        return (None if not status else status == "ok"), status
    for column in ("final_ok", "train_ok"):
        if cells.get(column, "") != "":
            good = number(cells[column]) == 1
            return good, cells.get("note") or ("ok" if good else "failed")
    return None, ""


def _stage(cells: Cells) -> Stage:
    """The bench's probes and the end-to-end check are short by design; the long cycle has its own columns."""
    if "long_ok" in cells:
        return Stage.LONG if number(cells["long_ok"]) == 1 else Stage.PROBE
    if "train_ok" in cells or "elapsed_s" in cells or "selection_reason" in cells:
        return Stage.PROBE
    return Stage.UNKNOWN


def _pair(cells: Cells, prefix: str) -> tuple[float | None, ...]:
    """One figure per GPU: prefix0, prefix1, … as many as there are columns."""
    columns = sorted(
        (name for name in cells if re.fullmatch(prefix + r"\d{1,2}", name)),
        key=lambda name: int(name[len(prefix) :]),
    )
    figures = tuple(number(cells[name]) for name in columns)
    return figures if any(figure is not None for figure in figures) else ()


def _percent(text: str | None) -> float | None:
    value = number(text)
    return value if value is not None and 0 <= value <= 100 else None


def _positive(text: str | None) -> int | None:
    value = whole(text)
    return value if value is not None and value > 0 else None


def _budget(cells: Cells) -> TimeBudget | None:
    if cells.get("long_mode") != "time_budget":
        return None
    reached = number(cells.get("long_budget_reached"))
    return TimeBudget(
        target_s=number(cells.get("long_budget_target_sec")),
        elapsed_s=number(cells.get("long_budget_elapsed_sec")),
        claimed_reached=None if reached is None else reached == 1,
        exit_code=whole(cells.get("long_rc")),
        stop_reason=cells.get("long_stop_reason", ""),
    )
