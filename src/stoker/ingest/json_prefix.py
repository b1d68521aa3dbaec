"""A pattern for JSON lines that all begin with the same keys, learnt from the first of them.

`json.loads` costs several microseconds a row; when every row is written by the same line of code, a pattern
over the plain values in front is several times cheaper. Nested values are never looked into.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PAIR = re.compile(rb'"([A-Za-z_]\w*)"(: ?)(-?[0-9][0-9.eE+-]*|"[^"\\\n]*"|true|false|null)(, ?|\})')
_NUMBER = rb"-?[0-9][0-9.eE+-]*"


@dataclass(frozen=True, slots=True)
class Prefix:
    opening: bytes
    pattern: re.Pattern[bytes]
    captured: tuple[str, ...]


def prefix_of(block: bytes, needed: tuple[str, ...]) -> Prefix | None:
    """None if the first line does not hold all the needed keys before anything nested."""
    line = block[: block.find(b"\n")]
    if not line.startswith(b"{"):
        return None
    parts: list[bytes] = [rb"\{"]
    captured: list[str] = []
    position = 1
    while len(captured) < len(needed):
        pair = _PAIR.match(line, position)
        if pair is None or pair[4] == b"}":
            break
        name = pair[1].decode("ascii")
        parts.append(re.escape(b'"' + pair[1] + b'"' + pair[2]) + _value(pair[3], capture=name in needed))
        if name in needed:
            captured.append(name)
        position = pair.end()
        parts.append(re.escape(pair[4]) if len(captured) < len(needed) else rb"[,}]")
    if set(captured) != set(needed):
        return _with_last(line, needed, parts, captured, position)
    return Prefix(line[: _opening_end(line)], re.compile(b"".join(parts)), tuple(captured))


def _with_last(
    line: bytes, needed: tuple[str, ...], parts: list[bytes], captured: list[str], position: int
) -> Prefix | None:
    """The last needed key may also be the last of the row."""
    pair = _PAIR.match(line, position)
    missing = set(needed) - set(captured)
    if pair is None or missing != {pair[1].decode("ascii")}:
        return None
    parts.append(re.escape(b'"' + pair[1] + b'"' + pair[2]) + _value(pair[3], capture=True) + rb"\}")
    return Prefix(line[: _opening_end(line)], re.compile(b"".join(parts)), (*captured, *missing))


def _value(seen: bytes, *, capture: bool) -> bytes:
    if seen.startswith(b'"'):
        return re.escape(seen)
    if not seen[:1].isdigit() and not seen.startswith(b"-"):
        return rb"(?:true|false|null)"
    return b"(" + _NUMBER + b")" if capture else _NUMBER


def _opening_end(line: bytes) -> int:
    """The part that every row begins with, letter for letter: up to the first value that is a number."""
    first = _PAIR.match(line, 1)
    if first is None:
        return 1
    return first.end() if first[3].startswith(b'"') else first.start(3)
