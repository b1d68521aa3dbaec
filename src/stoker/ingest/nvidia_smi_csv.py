"""`nvidia-smi --query-gpu=… --format=csv`: with a header or without, with units or without.

A day of eight GPUs is 700 000 lines, so whole blocks are cut into columns at once; a block that is not
perfectly regular goes line by line, where bad lines are found and counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.ingest.nvidia_smi_columns import GPU_COLUMNS, columns_of, is_header
from stoker.ingest.source import Ledger, Reading, Source, is_absent, number
from stoker.ingest.trace_builder import Collected, larger, percent, seconds_of

_UNITS = (b" %", b" MiB", b" W", b" MHz")


class _Figures(dict[bytes, float]):
    """Text to figure; a log has few different ones. Raises ValueError on what is neither figure nor blank."""

    def __init__(self, top: float) -> None:
        self.top = top

    def __missing__(self, text: bytes) -> float:
        value = float("nan") if is_absent(text.decode("ascii", "replace")) else float(text)
        if not is_absent(text.decode("ascii", "replace")) and not 0 <= value <= self.top:
            raise ValueError(text)
        self[text] = value
        return value


@dataclass
class _Layout:
    names: list[str]
    gpu: int | None
    util: int
    used: int | None
    total: int | None
    stamp: int | None

    @classmethod
    def of(cls, names: list[str]) -> _Layout:
        def place(name: str) -> int | None:
            return names.index(name) if name in names else None

        gpu = next((place(name) for name in GPU_COLUMNS if name in names), None)
        return cls(
            names,
            gpu,
            names.index("utilization.gpu"),
            place("memory.used"),
            place("memory.total"),
            place("timestamp"),
        )


def recognise(source: Source) -> bool:
    return columns_of(source.head) is not None


def read(source: Source) -> Reading:
    found = columns_of(source.head)
    assert found is not None, "read() follows recognise()"
    names, notes = found
    reader = _Reader(_Layout.of(names))
    if source.encoding.startswith("utf-16"):
        for line, text in source.lines():
            reader.line(line, text)
    else:
        for block in source.blocks():
            reader.block(block)
    traces = tuple(kept.trace(gpu) for gpu, kept in reader.gpus.items())
    return Reading(traces, reader.ledger, tuple(notes))


class _Reader:
    def __init__(self, layout: _Layout) -> None:
        self.layout = layout
        self.gpus: dict[str, Collected] = {}
        self.ledger = Ledger()
        self.next_line = 1
        self.stamp_of_poll = ""
        self.place_in_poll = 0
        self.utils = _Figures(100.0)
        self.sizes = _Figures(1e9)

    def block(self, block: bytes) -> None:
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = block.count(b"\n")
        if not self._columns(block, lines):
            for offset, text in enumerate(block.split(b"\n")):
                self.line(self.next_line + offset, text.decode("utf-8", "replace"))
        self.next_line += lines

    def _columns(self, block: bytes, lines: int) -> bool:
        """The whole block at once; False, and nothing kept, if it is not regular."""
        layout, width = self.layout, len(self.layout.names)
        if layout.gpu is None or not block.endswith(b"\n") or lines < 64:
            return False
        if self.next_line == 1 and is_header(block[: block.find(b"\n")].decode("utf-8", "replace")):
            block, lines = block[block.find(b"\n") + 1 :], lines - 1
        for unit in _UNITS:
            block = block.replace(unit, b"")
        fields = block[:-1].replace(b"\n", b", ").split(b", ")
        if len(fields) != lines * width:
            return False
        keys = fields[layout.gpu :: width]
        polled = list(dict.fromkeys(keys[:64]))
        if any(set(keys[place :: len(polled)]) != {gpu} for place, gpu in enumerate(polled)):
            return False
        return self._keep_columns(fields, polled)

    def _keep_columns(self, fields: list[bytes], polled: list[bytes]) -> bool:
        layout, width = self.layout, len(self.layout.names)
        step = width * len(polled)
        fresh = []
        try:
            times = self._times(fields, step)
            for place, gpu in enumerate(polled):
                base = place * width
                utils = list(map(self.utils.__getitem__, fields[base + layout.util :: step]))
                used, total = (
                    self._peak(fields, None if column is None else base + column, step)
                    for column in (layout.used, layout.total)
                )
                fresh.append((gpu.decode("ascii", "replace"), utils, used, total))
        except ValueError:
            return False
        for name, utils, used, total in fresh:
            kept = self.gpus.setdefault(name, Collected())
            kept.util.extend(utils)
            kept.times.extend(times[: len(utils)])
            kept.mem_peak, kept.mem_total = larger(kept.mem_peak, used), larger(kept.mem_total, total)
        return True

    def _times(self, fields: list[bytes], step: int) -> list[float]:
        """The GPUs of one poll are asked milliseconds apart: the first one's clock serves all."""
        if self.layout.stamp is None:
            return []
        times = [seconds_of(text.decode("ascii", "replace")) for text in fields[self.layout.stamp :: step]]
        if None in times:
            raise ValueError("a timestamp cannot be read")
        return [time for time in times if time is not None]

    def _peak(self, fields: list[bytes], column: int | None, step: int) -> float | None:
        if column is None:
            return None
        figures = [self.sizes[text] for text in set(fields[column::step])]
        return max((figure for figure in figures if figure == figure), default=None)

    def line(self, line: int, text: str) -> None:
        if not text.strip() or is_header(text):
            return
        fields = [field.strip() for field in text.split(",")]
        layout = self.layout
        if len(fields) != len(layout.names):
            self.ledger.add(line, f"{len(fields)} columns where {len(layout.names)} are expected", text)
            return
        util = percent(number(fields[layout.util]))
        stamp = fields[layout.stamp] if layout.stamp is not None else ""
        time_s = seconds_of(stamp) if stamp else None
        if (util is None and not is_absent(fields[layout.util])) or (
            layout.stamp is not None and time_s is None
        ):
            self.ledger.add(line, "the utilisation or the time is not readable", text)
            return
        used, total = (
            None if place is None else number(fields[place]) for place in (layout.used, layout.total)
        )
        gpu = self._gpu(fields, stamp)
        self.gpus.setdefault(gpu, Collected()).add(util, time_s, used, total)

    def _gpu(self, fields: list[str], stamp: str) -> str:
        if self.layout.gpu is not None:
            return fields[self.layout.gpu]
        if not stamp:
            return "0"
        self.place_in_poll = self.place_in_poll + 1 if stamp == self.stamp_of_poll else 0
        self.stamp_of_poll = stamp
        return str(self.place_in_poll)
