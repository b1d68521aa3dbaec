"""`nvidia-smi --query-gpu=… --format=csv`: with a header or without, with units or without.

Regular blocks are read by column; what is not regular is halved until the bad line stands nearly alone.
"""

from __future__ import annotations

from operator import methodcaller

from stoker.ingest.gpu_columns import GpuColumns, Layout
from stoker.ingest.nvidia_smi_columns import GPU_COLUMNS, columns_of, is_header
from stoker.ingest.source import Ledger, Reading, Source, is_absent, number
from stoker.ingest.trace_builder import Collected, percent, seconds_of

_PIECES = 16
_FEWEST_ROWS = 64
_COMMAS = methodcaller("count", b",")


def recognise(source: Source) -> bool:
    return columns_of(source.head) is not None


def read(source: Source) -> Reading:
    found = columns_of(source.head)
    if found is None:
        return Reading((), Ledger())
    names, notes = found
    reader = _Reader(names)
    if source.encoding.startswith("utf-16"):
        for line, text in source.lines():
            reader.line(line, text)
    else:
        for block in source.blocks():
            reader.block(block.splitlines())
    traces = tuple(kept.trace(gpu) for gpu, kept in reader.columns.gpus.items())
    return Reading(traces, reader.ledger, tuple(notes))


class _Reader:
    def __init__(self, names: list[str]) -> None:
        self.names = names
        gpu = next((names.index(name) for name in GPU_COLUMNS if name in names), None)
        self.layout = Layout(
            len(names),
            gpu,
            names.index("utilization.gpu"),
            self._place("memory.used"),
            self._place("memory.total"),
        )
        self.stamp = self._place("timestamp")
        self.columns = GpuColumns()
        self.ledger = Ledger()
        self.next_line = 1
        self.stamp_of_poll = ""
        self.place_in_poll = 0

    def _place(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    def block(self, lines: list[bytes]) -> None:
        """Whole, or in pieces, or line by line: whatever is the largest that is regular."""
        if self.next_line == 1 and lines and is_header(lines[0].decode("utf-8", "replace")):
            lines = lines[1:]
            self.next_line += 1
        if len(lines) < _FEWEST_ROWS:
            for text in lines:
                self.line(self.next_line, text.decode("utf-8", "replace"))
                self.next_line += 1
        elif self._at_once(lines) or self._without_odd_lines(lines):
            self.next_line += len(lines)
        else:
            size = max(_FEWEST_ROWS - 1, len(lines) // _PIECES)
            for start in range(0, len(lines), size):
                self.block(lines[start : start + size])

    def _without_odd_lines(self, lines: list[bytes]) -> bool:
        """A driver's complaint between the rows must not cost the columns of the whole block."""
        commas = self.layout.width - 1
        odd = [place for place, line in enumerate(lines) if _COMMAS(line) != commas]
        regular = [line for line in lines if _COMMAS(line) == commas]
        if not odd or not regular or not self._at_once(regular):
            return False
        for place in odd:
            self.line(self.next_line + place, lines[place].decode("utf-8", "replace"))
        return True

    def _at_once(self, lines: list[bytes]) -> bool:
        if set(map(_COMMAS, lines)) != {self.layout.width - 1}:
            return False
        fields = b", ".join(lines).split(b", ")
        return self.columns.keep(fields, len(lines), self.layout, None if self.stamp is None else self._clock)

    def _clock(self, fields: list[bytes], row: int) -> float:
        stamp = fields[row * self.layout.width + (self.stamp or 0)].decode("ascii", "replace")
        time_s = seconds_of(stamp)
        if time_s is None:
            raise ValueError(stamp)
        return time_s

    def line(self, line: int, text: str) -> None:
        if not text.strip() or is_header(text):
            return
        fields = [field.strip() for field in text.split(",")]
        layout = self.layout
        if len(fields) != layout.width:
            self.ledger.add(line, f"{len(fields)} columns where {layout.width} are expected", text)
            return
        util = percent(number(fields[layout.util]))
        stamp = fields[self.stamp] if self.stamp is not None else ""
        time_s = seconds_of(stamp) if stamp else None
        if (util is None and not is_absent(fields[layout.util])) or (
            self.stamp is not None and time_s is None
        ):
            self.ledger.add(line, "the utilisation or the time is not readable", text)
            return
        used, total = (
            None if place is None else number(fields[place]) for place in (layout.used, layout.total)
        )
        self.columns.gpus.setdefault(self._gpu(fields, stamp), Collected()).add(util, time_s, used, total)

    def _gpu(self, fields: list[str], stamp: str) -> str:
        if self.layout.gpu is not None:
            return fields[self.layout.gpu]
        if not stamp:
            return "0"
        self.place_in_poll = self.place_in_poll + 1 if stamp == self.stamp_of_poll else 0
        self.stamp_of_poll = stamp
        return str(self.place_in_poll)
