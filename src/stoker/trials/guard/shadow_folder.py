"""The folder a trial's writes go to: made for one trial, looked through after it, and removed.

Not in the user's folder: an overlay does not take an upper layer from inside a lower one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from stoker.errors import FolderError
from stoker.trials.guard.mode import GuardMode
from stoker.trials.guard.mounts import is_below

_BASES = ("/var/tmp", "/tmp")
NEEDED_BYTES = 2_000_000_000
"""A checkpoint or two."""


def choose_base(cwd: Path) -> Path:
    """STOKER_SHADOW_BASE names another disk. A base inside the command's own folder will not do."""
    chosen = os.environ.get("STOKER_SHADOW_BASE")
    bases = [Path(chosen)] if chosen else [Path(base) for base in _BASES]
    usable = [base.resolve() for base in bases if base.is_dir() and os.access(base, os.W_OK | os.X_OK)]
    usable = [base for base in usable if not is_below(str(base), [str(cwd.resolve())])]
    roomy = [base for base in usable if shutil.disk_usage(base).free > NEEDED_BYTES]
    if not usable:
        raise FolderError(
            "there is no folder for what trials write",
            seen=f"looked at {', '.join(map(str, bases))}; the command runs in {cwd}",
            hint="set STOKER_SHADOW_BASE to a folder on a disk with room, outside the command's own",
        )
    return (roomy or usable)[0]


def made_shadow(base: Path) -> Path:
    shadow = base / f"stoker-shadow-{os.getuid()}-{secrets.token_hex(4)}"
    shadow.mkdir(mode=0o700)
    return shadow


def written_paths(shadow: Path, mode: GuardMode) -> Iterator[str]:
    """The user's names of all files a trial wrote; what it removed is not among them, nor what it only opened
    for writing (`np.memmap` does, by default): such a copy is as old as the file itself."""
    if mode is GuardMode.OVERLAY:
        for layer in sorted(shadow.glob("layers/*")):
            if covered := _covered_by(layer):
                yield from _files_below(layer / "upper", covered)
    elif (shadow / "tree").is_dir():
        yield from _files_below(shadow / "tree", "/")


def _covered_by(layer: Path) -> str:
    """Empty where the trial was ended while its guard was being set up: nothing has run yet."""
    try:
        return (layer / "of").read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""


def _files_below(folder: Path, covered: str) -> Iterator[str]:
    for here, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)
            real = os.path.join(covered, os.path.relpath(path, folder))
            with contextlib.suppress(OSError):
                copy = os.lstat(path)
                if stat.S_ISREG(copy.st_mode) and not _as_it_was(copy, real):
                    yield real


def _as_it_was(copy: os.stat_result, real: str) -> bool:
    try:
        found = os.lstat(real)
    except OSError:
        return False
    return (copy.st_size, copy.st_mtime_ns) == (found.st_size, found.st_mtime_ns)
