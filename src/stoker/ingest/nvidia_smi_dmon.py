"""`nvidia-smi dmon`: a header of `#` lines names the columns; one row per GPU and poll."""

from __future__ import annotations

import re

from stoker.ingest.source import Ledger, Reading, Source, is_absent, number
from stoker.ingest.trace_builder import Collected, percent, seconds_of

_HEADER = re.compile(r"^#\s*(?:Date\s+Time\s+|Date\s+|Time\s+)?gpu\s", re.M)
_DEFAULT_POLL_S = 1.0
_NOTE = "dmon printed no clock: one sample is taken to be one second, dmon's default"


def recognise(source: Source) -> bool:
    return bool(_HEADER.search(source.head)) and " sm" in source.head


def read(source: Source) -> Reading:
    ledger = Ledger()
    columns: dict[str, int] = {}
    gpus: dict[str, Collected] = {}
    for line, text in source.lines():
        if text.startswith("#"):
            if _HEADER.match(text):
                columns = {name.lower(): place for place, name in enumerate(text[1:].split())}
        elif text.strip():
            _row(line, text, columns, gpus, ledger)
    traces = tuple(kept.trace(gpu, poll_s=_DEFAULT_POLL_S) for gpu, kept in gpus.items())
    clockless = any(trace.times_s is None for trace in traces)
    return Reading(traces, ledger, (_NOTE,) if clockless else ())


def _row(line: int, text: str, columns: dict[str, int], gpus: dict[str, Collected], ledger: Ledger) -> None:
    fields = text.split()
    if len(fields) != len(columns) or "sm" not in columns:
        ledger.add(line, f"{len(fields)} columns, the header names {len(columns)}", text)
        return
    shown = fields[columns["sm"]]
    util = percent(number(shown))
    if not fields[columns["gpu"]].isdigit() or (util is None and not is_absent(shown)):
        ledger.add(line, "GPU index or `sm` is not a number", text)
        return
    used = number(fields[columns["fb"]]) if "fb" in columns else None
    gpus.setdefault(fields[columns["gpu"]], Collected()).add(util, _time_s(fields, columns), used)


def _time_s(fields: list[str], columns: dict[str, int]) -> float | None:
    if "time" not in columns:
        return None
    day = fields[columns["date"]] if "date" in columns else "20000101"
    return seconds_of(f"{day[:4]}-{day[4:6]}-{day[6:8]} {fields[columns['time']]}")
