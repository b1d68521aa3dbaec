"""`nvidia-smi dmon`: a header of `#` lines names the columns; one row per GPU and poll."""

from __future__ import annotations

import re

from stoker.ingest.gpu_columns import GpuColumns, Layout
from stoker.ingest.source import Ledger, Reading, Source, is_absent, number
from stoker.ingest.trace_builder import Collected, percent, seconds_of

_HEADER = re.compile(r"^#\s*(?:Date\s+Time\s+|Date\s+|Time\s+)?gpu\s", re.M)
_DEFAULT_POLL_S = 1.0
_NOTE = "dmon printed no clock: one sample is taken to be one second, dmon's default"
_NO_DAY = "20000101"
_PIECES = 16
_FEWEST_ROWS = 64


def recognise(source: Source) -> bool:
    return bool(_HEADER.search(source.head)) and " sm" in source.head


def read(source: Source) -> Reading:
    reader = _Reader()
    if source.encoding.startswith("utf-16"):
        for line, text in source.lines():
            reader.line(line, text)
    else:
        for block in source.blocks():
            reader.block(block.splitlines())
    traces = tuple(kept.trace(gpu, poll_s=_DEFAULT_POLL_S) for gpu, kept in reader.columns.gpus.items())
    clockless = any(trace.times_s is None for trace in traces)
    return Reading(traces, reader.ledger, (_NOTE,) if clockless else ())


class _Reader:
    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.columns = GpuColumns()
        self.ledger = Ledger()
        self.next_line = 1

    def block(self, lines: list[bytes]) -> None:
        """Whole, or in pieces, or line by line: whatever is the largest that is regular."""
        if len(lines) < _FEWEST_ROWS:
            for text in lines:
                self.line(self.next_line, text.decode("utf-8", "replace"))
                self.next_line += 1
        elif self._at_once(lines):
            self.next_line += len(lines)
        else:
            size = max(_FEWEST_ROWS - 1, len(lines) // _PIECES)
            for start in range(0, len(lines), size):
                self.block(lines[start : start + size])

    def _at_once(self, lines: list[bytes]) -> bool:
        """Only between headers that name the same columns as before."""
        rows = [line for line in lines if not line.startswith(b"#")]
        named = {line for line in lines if line.startswith(b"#")}
        headers = [line.decode("ascii", "replace") for line in named]
        if "sm" not in self.places or any(
            _HEADER.match(line) and _places(line) != self.places for line in headers
        ):
            return False
        layout = Layout(len(self.places), self.places["gpu"], self.places["sm"], self.places.get("fb"))
        clock = self._clock if "time" in self.places else None
        return self.columns.keep(b" ".join(rows).split(), len(rows), layout, clock)

    def _clock(self, fields: list[bytes], row: int) -> float:
        base = row * len(self.places)
        day = (
            fields[base + self.places["date"]].decode("ascii", "replace")
            if "date" in self.places
            else _NO_DAY
        )
        time_s = _seconds(day, fields[base + self.places["time"]].decode("ascii", "replace"))
        if time_s is None:
            raise ValueError(row)
        return time_s

    def line(self, line: int, text: str) -> None:
        if text.startswith("#"):
            self.places = _places(text) if _HEADER.match(text) else self.places
        elif text.strip():
            self._row(line, text)

    def _row(self, line: int, text: str) -> None:
        fields, places = text.split(), self.places
        if len(fields) != len(places) or "sm" not in places:
            self.ledger.add(line, f"{len(fields)} columns, the header names {len(places)}", text)
            return
        shown = fields[places["sm"]]
        util = percent(number(shown))
        if not fields[places["gpu"]].isdigit() or (util is None and not is_absent(shown)):
            self.ledger.add(line, "GPU index or `sm` is not a number", text)
            return
        used = number(fields[places["fb"]]) if "fb" in places else None
        time_s = None
        if "time" in places:
            time_s = _seconds(fields[places["date"]] if "date" in places else _NO_DAY, fields[places["time"]])
        self.columns.gpus.setdefault(fields[places["gpu"]], Collected()).add(util, time_s, used)


def _places(header: str) -> dict[str, int]:
    """A name that comes twice keeps its first place; its second column counts all the same."""
    places: dict[str, int] = {}
    for place, name in enumerate(header[1:].lower().split()):
        places[f"{name} {place}" if name in places else name] = place
    return places


def _seconds(day: str, clock: str) -> float | None:
    return seconds_of(f"{day[:4]}-{day[4:6]}-{day[6:8]} {clock}")
