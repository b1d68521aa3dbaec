"""The drawn table of plain `nvidia-smi`, as `nvidia-smi -l 5 > gpu_usage.log` repeats it."""

from __future__ import annotations

import re
from datetime import datetime

from stoker.ingest.source import Ledger, Reading, Source
from stoker.ingest.trace_builder import Collected, percent

_STAMP = re.compile(r"^[A-Z][a-z]{2} ([A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4})\s*$")
_NAMED = re.compile(r"^\|\s+(\d{1,3})\s+\S.*\|")
_FIGURES = re.compile(r"(\d{1,7})MiB\s*/\s*(\d{1,7})MiB\s*\|\s*(\d{1,3}|N/A)\s?%?")


def recognise(source: Source) -> bool:
    return "NVIDIA-SMI" in source.head and bool(_FIGURES.search(source.head))


def read(source: Source) -> Reading:
    ledger = Ledger()
    gpus: dict[str, Collected] = {}
    time_s: float | None = None
    gpu: str | None = None
    for line, text in source.lines():
        if stamp := _STAMP.match(text):
            time_s = _seconds(stamp[1])
        elif figures := _FIGURES.search(text):
            _keep(line, text, gpu, figures, time_s, gpus, ledger)
            gpu = None
        elif named := _NAMED.match(text):
            gpu = named[1]
        elif "MiB" in text and "%" in text:
            ledger.add(line, "memory and utilisation cannot be read", text)
    return Reading(tuple(kept.trace(gpu) for gpu, kept in gpus.items()), ledger)


def _keep(
    line: int,
    text: str,
    gpu: str | None,
    figures: re.Match[str],
    time_s: float | None,
    gpus: dict[str, Collected],
    ledger: Ledger,
) -> None:
    if gpu is None:
        ledger.add(line, "figures of a GPU that was not named before", text)
        return
    util = None if figures[3] == "N/A" else percent(float(figures[3]))
    gpus.setdefault(gpu, Collected()).add(util, time_s, float(figures[1]), float(figures[2]))


def _seconds(text: str) -> float | None:
    try:
        return (datetime.strptime(text, "%b %d %H:%M:%S %Y") - datetime(2000, 1, 1)).total_seconds()
    except ValueError:
        return None
