"""metrics.jsonl: rows of single steps, warnings and epochs; appended runs are told apart.

A row is the time of ONE step, not a mean over the interval, and has no clock. `iter` starts again with each
epoch; where epoch and iter both fail to advance, another run was appended.
"""

from __future__ import annotations

import json
import random
from array import array
from operator import itemgetter, lt
from pathlib import Path

from stoker.ingest.json_prefix import Prefix, prefix_of
from stoker.ingest.parts import in_parts
from stoker.ingest.source import BLOCK_BYTES, MAX_LINE_CHARS, Ledger, Reading, Source, blocks_of, json_number
from stoker.ingest.step_session import Sessions
from stoker.model.evidence import StepLog

# Below this every row goes through JSON, and every row gives its stage times.
_WORTH_A_PATTERN_BYTES = 4 * 1024 * 1024
_DETAILED_PER_BLOCK = 8
_DETAILED_ROWS = 4000
"""About so many rows of a large file give their stage times: more would not change a mean."""
_NEEDED = ("epoch", "iter", "data_time", "iter_time")


def recognise(source: Source) -> bool:
    return any(
        line.startswith("{") and '"iter_time"' in line and '"iter"' in line
        for line in source.head.split("\n")[:50]
    )


def read(source: Source) -> Reading:
    if source.encoding.startswith("utf-16"):
        reader = _Reader()
        for line, text in source.lines():
            reader.row(line, text)
    else:
        reader, *others = in_parts(source.path, _read_part)
        for other in others:
            reader.take(other)
    logs: tuple[StepLog, ...] = tuple(reader.sessions.logs())
    return Reading(logs, reader.ledger, tuple(reader.notes()))


def _read_part(path: Path, start: int, end: int) -> _Reader:
    size = path.stat().st_size
    reader = _Reader(quick=size >= _WORTH_A_PATTERN_BYTES, blocks=size // BLOCK_BYTES)
    for block in blocks_of(path, start, end):
        reader.block(block)
    return reader


class _Reader:
    def __init__(self, *, quick: bool = False, blocks: int = 0) -> None:
        self.quick = quick
        self.detailed = max(1, min(_DETAILED_PER_BLOCK, _DETAILED_ROWS // (blocks or 1)))
        self.sessions = Sessions()
        self.ledger = Ledger()
        self.next_line = 1
        self.drawn = random.Random(20261115)
        self.sampled_rows = 0

    def block(self, block: bytes) -> None:
        lines = block.splitlines()
        if not (self.quick and lines and self._by_pattern(lines)):
            for offset, text in enumerate(lines):
                self.row(self.next_line + offset, text.decode("utf-8", "replace"))
        self.next_line += len(lines)

    def _by_pattern(self, lines: list[bytes]) -> bool:
        """All rows of a block at once where every one of them begins alike; other kinds go one by one."""
        whole = all(lines) and set(map(itemgetter(-1), lines)) == {ord("}")}
        prefix = prefix_of(lines[0], _NEEDED[1:], constant=_NEEDED[:1]) if whole else None
        if prefix and (matches := prefix.all_of(lines)):  # the usual block: all of one epoch
            return self._keep(matches, prefix, lines)
        prefix = prefix_of(lines[0], _NEEDED)
        if prefix and whole and (matches := prefix.all_of(lines)):
            return self._keep(matches, prefix, lines)
        return self._line_by_line(lines, prefix) if prefix else False

    def _keep(self, matches: list[tuple[bytes, ...]], prefix: Prefix, lines: list[bytes]) -> bool:
        columns = dict(zip(prefix.captured, zip(*matches, strict=True), strict=True))
        try:
            data, steps = (
                array("d", map(float, columns["data_time"])),
                array("d", map(float, columns["iter_time"])),
            )
            iters = array("q", map(int, columns["iter"]))
            epochs = self._epochs(columns.get("epoch"), lines)
        except (ValueError, OverflowError):
            return False
        ahead = epochs[0] == epochs[-1] and all(map(lt, iters, iters[1:]))
        if not self.sessions.extend(self.next_line, epochs, iters, data, steps, ahead=ahead):
            return False
        self._detail(lines)
        return True

    def _epochs(self, column: tuple[bytes, ...] | None, lines: list[bytes]) -> array[int]:
        if column is not None:
            return array("q", map(int, column))
        epoch = json_number(json.loads(lines[0])["epoch"])
        return array("q", [int(epoch or 0)]) * len(lines)

    def _detail(self, lines: list[bytes]) -> None:
        """Stage times and sample times from rows drawn at random: a fixed distance could hide a rhythm."""
        for offset in self.drawn.sample(range(len(lines)), min(self.detailed, len(lines))):
            row = _object(lines[offset].decode("utf-8", "replace"))
            if row is not None and row.get("type", "iter") == "iter":
                self.sampled_rows += 1
                self.sessions.detail(self.next_line + offset, row)

    def _line_by_line(self, lines: list[bytes], prefix: Prefix) -> bool:
        """Rows that begin alike by pattern, the others (epochs, warnings, broken ones) by JSON."""
        for offset, text in enumerate(lines):
            line = self.next_line + offset
            found = prefix.pattern.match(text) if text.endswith(b"}") else None
            values = dict(zip(prefix.captured, found.groups(), strict=True)) if found else {}
            try:
                kept = bool(values) and self.sessions.step(line, *(float(values[name]) for name in _NEEDED))
            except ValueError:
                kept = False
            if not kept:
                self.row(line, text.decode("utf-8", "replace"))
        self._detail(lines)
        return True

    def row(self, line: int, text: str) -> None:
        if not text.strip():
            return
        row = _object(text)
        if row is None:
            self.ledger.add(line, "not a JSON object", text)
        elif row.get("type", "iter") == "iter":
            self._step(line, row, text)
        elif row["type"] == "warn":
            self.sessions.warning()
        elif row["type"] == "epoch":
            self.sessions.epoch()
        else:
            self.ledger.add(line, "a row of a kind that is not known", text)

    def _step(self, line: int, row: dict[str, object], text: str) -> None:
        iteration, data, step = (json_number(row.get(name)) for name in ("iter", "data_time", "iter_time"))
        epoch = json_number(row.get("epoch", 1))
        if iteration is None or step is None or epoch is None:
            self.ledger.add(line, "an iter row without iter or iter_time", text)
            return
        if self.sessions.step(line, epoch, iteration, float("nan") if data is None else data, step):
            self.sessions.detail(line, row)
        else:
            self.ledger.add(line, "figures out of range", text)

    def take(self, other: _Reader) -> None:
        """The part of the file that follows."""
        offset = self.next_line - 1
        self.sessions.take(other.sessions, offset)
        self.ledger.take(other.ledger, offset)
        self.next_line += other.next_line - 1
        self.sampled_rows += other.sampled_rows

    def notes(self) -> list[str]:
        if not self.sampled_rows:
            return []
        return [f"stage and sample times are means over {self.sampled_rows} rows drawn at random"]


def _object(text: str) -> dict[str, object] | None:
    if len(text) >= MAX_LINE_CHARS:
        return None
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
