"""Pythons that nothing can be put into: started with -I, -E or -S. Seen from their command line alone."""

from __future__ import annotations

import os
import re

_PYTHON = re.compile(r"^(python|pypy)\d*(\.\d+)*t?$")
_TAKES_VALUE = "WXQ"
_ENDS_OPTIONS = "cm"


def isolating_flags(cmdline: bytes) -> str | None:
    """The flags, such as '-I'; None where it is no Python or nothing hides it."""
    words = [word.decode("utf-8", "replace") for word in cmdline.split(b"\0")]
    if not words or not _PYTHON.match(os.path.basename(words[0])):
        return None
    found = sorted(set(_short_options(words[1:])) & set("IES"))
    return "-" + "".join(found) if found else None


def _short_options(words: list[str]) -> list[str]:
    """Letters before the script; a letter that takes a value eats the rest of its word, or the next word."""
    letters: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        if not word.startswith("-") or word in ("-", "--"):
            break
        if word.startswith("--"):
            skip = word == "--check-hash-based-pycs"
            continue
        for place, letter in enumerate(word[1:], start=2):
            if letter in _ENDS_OPTIONS:
                return letters
            if letter in _TAKES_VALUE:
                skip = place == len(word)
                break
            letters.append(letter)
    return letters
