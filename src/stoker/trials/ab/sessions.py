"""Comparisons on disk: make a folder for one, find one to go on with."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from stoker.errors import FolderError, RunNotFound, StokerError
from stoker.store.folder import HOME, home, script_name
from stoker.trials.ab.journal import NAME, Session, read
from stoker.trials.ab.plan import Plan

SHOWN = 5


def create(command: Sequence[str]) -> Path:
    root = home() / "ab"
    folder = root / f"{time.strftime('%Y%m%d-%H%M%S')}-{script_name(command)}-{secrets.token_hex(3)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        ignore = (root.parent if root.parent.name == HOME else root) / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        folder.mkdir()
    except OSError as error:
        raise FolderError(
            "no folder can be made for this comparison",
            seen=f"{folder}: {error.strerror}",
            hint="run from a folder you may write to, or set STOKER_HOME to one",
        ) from error
    return folder


def remove_empty(folder: Path) -> None:
    """One that was refused before its first trial; where anything but its plan is there, it stays."""
    with contextlib.suppress(OSError):
        if {path.name for path in folder.iterdir()} <= {NAME}:
            (folder / NAME).unlink(missing_ok=True)
            folder.rmdir()


def short_name(folder: Path) -> str:
    return folder.name.rpartition("-")[2]


def unfinished() -> list[Session]:
    """Oldest first."""
    return [one for one in _all() if not one.ended]


def unfinished_of(plan: Plan) -> Session | None:
    """The newest one that asked the same and has measured something."""
    return next((one for one in reversed(unfinished()) if one.plan == plan and one.measures), None)


def find(name: str) -> Session:
    """A path, a name or a part of it; empty: the newest one that is not finished."""
    if name and (Path(name) / NAME).is_file():
        return read(Path(name))
    there = _all()
    matching = [one for one in there if name in one.folder.name]
    if not name:
        matching = [one for one in there if not one.ended][-1:]
        if not matching:
            raise RunNotFound(
                "there is no unfinished comparison here",
                seen=f"looked in {home() / 'ab'}",
                hint="stoker ab --b num_workers=8 -- python train.py",
            )
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(one.folder.name for one in (matching or there)[-SHOWN:]) or "none"
    many = f"{len(matching)} comparisons match" if matching else "no comparison matches"
    raise RunNotFound(f"{many} {name!r}", seen=f"there are: {names}", hint="more of its name")


def _all() -> list[Session]:
    root = home() / "ab"
    found = []
    for folder in sorted(root.glob("*")) if root.is_dir() else ():
        try:
            found.append(read(folder))
        except StokerError:
            continue
    return found
