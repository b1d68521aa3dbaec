"""A pattern for JSON lines that all begin with the same keys, learnt from the first of them.

`json.loads` costs several microseconds a row; when every row is written by the same line of code, a pattern
over the plain values in front is several times cheaper. Nested values are never looked into.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PAIR = re.compile(rb'"([A-Za-z_]\w*)"(: ?)(-?[0-9][0-9.eE+-]*|"[^"\\\n]*"|true|false|null)(, ?|\})')
_NUMBER = rb"-?[0-9][0-9.eE+-]*"
_HEAD_SLACK_BYTES = 64


@dataclass(frozen=True, slots=True)
class Prefix:
    pattern: re.Pattern[bytes]
    captured: tuple[str, ...]
    head_bytes: int
    """No row needs more than its first so many bytes."""

    def all_of(self, lines: list[bytes]) -> list[tuple[bytes, ...]] | None:
        """The captured values of every line, or None if one of them begins otherwise."""
        heads = b"\n".join([line[: self.head_bytes] for line in lines])
        matches: list[tuple[bytes, ...]] = self.pattern.findall(heads)
        return matches if len(matches) == len(lines) else None


def prefix_of(line: bytes, captured: tuple[str, ...], constant: tuple[str, ...] = ()) -> Prefix | None:
    """Keys to capture, and keys that keep the value they have in this line. None where one of them is missing
    or comes after a nested value."""
    wanted = set(captured) | set(constant)
    parts: list[bytes] = [rb"\{"]
    order: list[str] = []
    position = 1 if line.startswith(b"{") else len(line)
    while wanted and (pair := _PAIR.match(line, position)):
        name = pair[1].decode("ascii")
        parts.append(re.escape(b'"' + pair[1] + b'"' + pair[2]))
        parts.append(_value(pair[3], capture=name in captured, constant=name in constant))
        order += [name] if name in captured else []
        wanted.discard(name)
        parts.append(re.escape(pair[4]) if wanted else rb"[,}]")
        position = pair.end()
    if wanted or len(order) != len(captured):
        return None
    return Prefix(re.compile(b"".join(parts)), tuple(order), position + _HEAD_SLACK_BYTES)


def _value(seen: bytes, *, capture: bool, constant: bool) -> bytes:
    if constant or seen.startswith(b'"'):
        return re.escape(seen)
    if not seen[:1].isdigit() and not seen.startswith(b"-"):
        return rb"(?:true|false|null)"
    return b"(" + _NUMBER + b")" if capture else _NUMBER
