"""Untrusted text made harmless: control characters shown, never sent to the terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~])")


def printable(text: str) -> str:
    shown = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return _SURROGATE.sub("\ufffd", shown)


def markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", printable(text)).replace("&", "&amp;")


def shorten_middle(text: str, width: int) -> str:
    """Keep both ends: names in one column often begin alike, or end alike."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + "…" + (text[-tail:] if tail else "")
