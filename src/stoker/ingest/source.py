"""One file, opened carefully: any newline, any bytes, any line length; and the ledger of bad lines.

Readers get text through `Source.lines()` or raw blocks through `Source.blocks()`; both hold a few
megabytes at most, whatever the file's size.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stoker.model.evidence import BadLine, Evidence

HEAD_BYTES = 64 * 1024
BLOCK_BYTES = 512 * 1024
MAX_LINE_CHARS = 1024 * 1024
_KEPT_BAD_LINES = 5
_EXCERPT_CHARS = 60
_ABSENT = frozenset(
    {"", "-", "n/a", "[n/a]", "na", "nan", "none", "null", "[not supported]", "not supported"}
)


@dataclass
class Ledger:
    """Bad lines: all are counted, the first few are kept to be shown."""

    count: int = 0
    kept: list[BadLine] = field(default_factory=list)

    def take(self, other: Ledger, line_offset: int) -> None:
        """What was found further down in the same file."""
        room = _KEPT_BAD_LINES - len(self.kept)
        self.kept += [BadLine(bad.line + line_offset, bad.why, bad.text) for bad in other.kept[:room]]
        self.count += other.count

    def add(self, line: int, why: str, text: str) -> None:
        self.count += 1
        if len(self.kept) < _KEPT_BAD_LINES:
            self.kept.append(BadLine(line, why, text[:_EXCERPT_CHARS]))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader hands back."""

    items: tuple[Evidence, ...]
    ledger: Ledger
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    head: str
    """The first part of the file as text, newlines made `\\n`."""
    encoding: str

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines; one that is longer than a megabyte comes in pieces under one number."""
        number, rest = 1, ""
        with open(self.path, encoding=self.encoding, errors="replace", newline=None) as stream:
            while block := stream.read(BLOCK_BYTES):
                *whole, rest = (rest + block).split("\n")
                for line in whole:
                    yield number, line
                    number += 1
                while len(rest) > MAX_LINE_CHARS:
                    yield number, rest[:MAX_LINE_CHARS]
                    rest = rest[MAX_LINE_CHARS:]
        if rest:
            yield number, rest

    def blocks(self) -> Iterator[bytes]:
        """Raw bytes in blocks that end with a whole line, where lines end at all."""
        return blocks_of(self.path, 0, self.path.stat().st_size)

    def text(self, limit: int = 64 * 1024 * 1024) -> str:
        """All of a file that is small by nature (JSON, configuration)."""
        with open(self.path, encoding=self.encoding, errors="replace", newline=None) as stream:
            return stream.read(limit)


def blocks_of(path: Path, start: int, end: int) -> Iterator[bytes]:
    rest = b""
    with open(path, "rb") as stream:
        stream.seek(start)
        while block := stream.read(min(BLOCK_BYTES, end - stream.tell())):
            cut = block.rfind(b"\n") + 1
            if not cut and len(rest) < BLOCK_BYTES:
                rest += block
                continue
            yield rest + block[:cut] if cut else rest
            rest = block[cut:]
    if rest:
        yield rest


def open_source(path: Path) -> Source | None:
    """None for an empty file and for one that is not text."""
    with open(path, "rb") as stream:
        raw = stream.read(HEAD_BYTES)
    encoding = _encoding(raw)
    if not raw or (encoding == "utf-8-sig" and b"\0" in raw[:1024]):
        return None
    head = raw.decode(encoding, errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return Source(path, head, encoding)


def _encoding(raw: bytes) -> str:
    """PowerShell's `>` writes UTF-16; everything else here is UTF-8 or nearly so."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig"


def number(text: str | None) -> float | None:
    """A figure, with or without its unit; None where there is none. Infinity is not a figure."""
    if text is None:
        return None
    word = text.strip()
    if word.lower() in _ABSENT:
        return None
    try:
        value = float(word)
    except ValueError:
        first = word.split()[0].rstrip("%") if word.split() else ""
        try:
            value = float(first)
        except ValueError:
            return None
    return value if math.isfinite(value) else None


def whole(text: str | None) -> int | None:
    value = number(text)
    return None if value is None or abs(value) > 1e15 else int(value)


def is_absent(text: str) -> bool:
    return text.strip().lower() in _ABSENT


def json_number(value: object) -> float | None:
    """A number out of JSON: not a bool, not infinite, not a text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if math.isfinite(converted) else None
