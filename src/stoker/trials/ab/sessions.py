"""Comparisons on disk: make a folder for one, list them, find one to read again or to go on with."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import FolderError, RunNotFound, StokerError
from stoker.store import folder as folders
from stoker.store.folder import COMPARISONS, HOME, home, script_name
from stoker.trials.ab.answer import answer
from stoker.trials.ab.journal import NAME, Session, is_running, read
from stoker.trials.ab.plan import Plan
from stoker.trials.ab.session import Ended

SHOWN = 5


def create(command: Sequence[str]) -> Path:
    root = home() / COMPARISONS
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
    if name and os.path.isfile(os.path.join(name, NAME)):
        return read(Path(name))
    there = _all()
    matching = [one for one in there if name in one.folder.name]
    if not name:
        matching = [one for one in there if not one.ended][-1:]
        if not matching:
            raise RunNotFound(
                "there is no unfinished comparison here",
                seen=f"looked in {home() / COMPARISONS}",
                hint="stoker ab --b num_workers=8 -- python train.py",
            )
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(one.folder.name for one in (matching or there)[-SHOWN:]) or "none"
    many = f"{len(matching)} comparisons match" if matching else "no comparison matches"
    raise RunNotFound(f"{many} {name!r}", seen=f"there are: {names}", hint="more of its name")


def named(name: str | None) -> Session | None:
    """The comparison that is meant by what `stoker why` is given; None where it is a run, or nothing."""
    if name and os.path.isfile(os.path.join(name, NAME)):
        return read(Path(name))
    if name and (os.path.isfile(os.path.join(name, "run.json")) or find_trial(name)):
        return None
    there = _all()
    if name in (None, "latest"):
        newest = max(there, key=_last_s, default=None)
        return newest if newest is not None and _last_s(newest) > _last_run_s() else None
    recorded = [item.folder.name for item in folders.listed()]
    runs = [one for one in recorded if name in one]
    matching = [one for one in there if name in one.folder.name]
    if runs and matching:
        raise RunNotFound(
            f"{name!r} may be a run or a comparison",
            seen=", ".join([*runs[-SHOWN:], *(one.folder.name for one in matching[-SHOWN:])]),
            hint="more of its name",
        )
    return find(name) if matching or (there and not recorded) else None


def find_trial(name: str | None) -> Path | None:
    """`0a1b2c/pair1-B-1`: a trial of a comparison, by any name of the comparison."""
    whole, slash, trial = (name or "").rpartition("/")
    matching = [folder for folder in _folders() if whole and whole in folder.name]
    if slash and len(matching) == 1 and os.path.isfile(matching[0] / trial / "run.json"):
        return matching[0] / trial
    return None


def _last_s(session: Session) -> float:
    """When something was last written to it, by the wall clock."""
    return (session.folder / NAME).stat().st_mtime


def _last_run_s() -> float:
    """When the newest run began, or ended."""
    newest = max(
        (item.info for item in folders.listed() if item.info),
        key=lambda info: info.started_wall,
        default=None,
    )
    if newest is None:
        return 0.0
    return newest.started_wall + (newest.ended_s - newest.started_s if newest.ended_s is not None else 0.0)


def as_ended(session: Session) -> Ended:
    """What its page shows: the answer of all that was measured."""
    found = answer(session.plan, session.measures)
    if session.ended or found.final:
        return Ended(session.plan, session.measures, found)
    why = "it is still running" if is_running(session.folder) else "it was stopped before there was an answer"
    return Ended(session.plan, session.measures, found, stopped=why)


@dataclass(frozen=True, slots=True)
class Listed:
    folder: Path
    session: Session | None
    """None: its journal cannot be read."""
    size_bytes: int
    running: bool


def listed() -> list[Listed]:
    """All comparisons, oldest first; one that cannot be read is listed all the same."""
    return [
        Listed(folder, _read_or_none(folder), folders.size_bytes(folder), is_running(folder))
        for folder in _folders()
    ]


def prune(keep: int) -> folders.Pruned[Listed]:
    return folders.remove_old(listed(), keep, lambda item: item.running)


def _folders() -> list[Path]:
    """Oldest first: their names begin with the time, to the second."""
    root = home() / COMPARISONS
    there = [path for path in root.glob("*") if path.is_dir()] if root.is_dir() else []
    return sorted(there, key=lambda path: (path.name[:15], path.stat().st_mtime))


def _all() -> list[Session]:
    return [session for folder in _folders() if (session := _read_or_none(folder)) is not None]


def _read_or_none(folder: Path) -> Session | None:
    try:
        return read(folder)
    except StokerError:
        return None
