"""What a page is made of, before anybody knows whether it becomes text or Markdown.

A verb's report builds a `Page` from plain data; the renderers (`text`, `markdown`) know these blocks and
nothing else. Strings in a page may come from command lines, paths and logs: the renderers escape them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Sentence:
    """The answer, in words."""

    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Label and value, one per line."""

    rows: tuple[tuple[str, str], ...]
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    pct: float
    note: str = ""
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Shares of one whole; the renderer draws them to a common scale of 100 %."""

    heading: str
    rows: tuple[Bar, ...]


class Tone(StrEnum):
    """What a part of a whole is, for its colour."""

    GOOD = "good"
    FAIR = "fair"
    LOST = "lost"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Segment:
    label: str
    pct: float
    note: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Stack:
    """One bar whose parts add up to 100 %, with a line for each below it."""

    heading: str
    parts: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Table:
    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = field(default_factory=frozenset)
    """Columns of numbers, set flush right."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Bullet points: findings, actions, what could not be measured."""

    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file, word for word."""

    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NextCommand:
    """The last line printed."""

    command: str
    why: str = ""


Block = Sentence | Facts | Bars | Stack | Table | Notes | Excerpt | NextCommand


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    status: str
    blocks: tuple[Block, ...]
