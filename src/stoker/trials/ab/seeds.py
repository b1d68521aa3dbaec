"""Where a command takes its seed: `{seed}` in it, a flag or an override it has, a flag the user names."""

from __future__ import annotations

import re
from collections.abc import Sequence

MARK = "{seed}"
NAMES = ("seed", "rand-seed", "random-seed", "rand_seed", "random_seed")
_OVERRIDE = re.compile(r"(\+{0,2}(?:[\w.]+\.)?seed)=(-?\d+)")
NO_PLACE = "the command shows no seed: put {seed} into it, or name its flag with --seed-flag --seed"


def takes_seed(command: Sequence[str], flag: str = "") -> bool:
    return bool(flag) or any(MARK in word for word in command) or _place(command) is not None


def with_seed(command: Sequence[str], seed: int, flag: str = "") -> tuple[str, ...]:
    """Unchanged where there is no place for one."""
    words = [word.replace(MARK, str(seed)) for word in command]
    if words != list(command):
        return tuple(words)
    place = _place(words, flag)
    if place is None:
        return (*words, flag, str(seed)) if flag else tuple(words)
    at, joined = place
    words[at] = f"{words[at].partition('=')[0]}={seed}" if joined else str(seed)
    return tuple(words)


def given_seed(command: Sequence[str], flag: str = "") -> int:
    """The one the user wrote; 0 without one."""
    place = _place(command, flag)
    if place is None:
        return 0
    at, joined = place
    text = command[at].partition("=")[2] if joined else command[at]
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else 0


def _place(command: Sequence[str], flag: str = "") -> tuple[int, bool] | None:
    """The word that holds the value, and whether the name is in it, too."""
    flags = [flag] if flag else [f"--{name}" for name in NAMES]
    for index, word in enumerate(command):
        if word in flags and index + 1 < len(command):
            return index + 1, False
        if word.partition("=")[0] in flags and "=" in word:
            return index, True
        if not flag and _OVERRIDE.fullmatch(word):
            return index, True
    return None
