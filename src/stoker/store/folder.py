"""Run folders on disk: make one, find one, list them, throw old ones away."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from stoker.errors import FolderError, RunNotFound
from stoker.model.run import RunFailure, RunInfo

SCHEMA = "stoker.run/1"
HOME = ".stoker"
COMPARISONS = "ab"
"""Beside `runs`: what `stoker ab` keeps."""
SHOWN = 5
CROWDED_BYTES = 2_000_000_000
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def home(base: Path | None = None) -> Path:
    """`.stoker` in the current directory, unless STOKER_HOME says otherwise."""
    chosen = os.environ.get("STOKER_HOME")
    return Path(chosen) if chosen else (base or _here()) / HOME


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise FolderError("the current folder is gone", seen=str(error), hint="cd to another one") from error


def create(command: Sequence[str], base: Path | None = None) -> Path:
    """A new folder nobody else has: time, script, and a random end."""
    root = home(base) / "runs"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{script_name(command)}-{secrets.token_hex(3)}"
    folder = root / name
    try:
        root.mkdir(parents=True, exist_ok=True)
        _keep_out_of_git(root)
        folder.mkdir()
        (folder / "inside").mkdir()
        (folder / "outside").mkdir()
    except OSError as error:
        raise FolderError(
            "no folder can be made for this run",
            seen=f"{folder}: {error.strerror}",
            hint="run from a folder you may write to, or set STOKER_HOME to one",
        ) from error
    return folder


def _keep_out_of_git(root: Path) -> None:
    """Beside `runs` in a folder of our own; inside it where STOKER_HOME names a folder of the user's."""
    ignore = (root.parent if root.parent.name == HOME else root) / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def script_name(command: Sequence[str]) -> str:
    """The script's own name, for a folder people recognise."""
    scripts = [Path(part).stem for part in command if part.endswith((".py", ".sh"))]
    modules = [command[i + 1] for i, part in enumerate(command[:-1]) if part == "-m"]
    chosen = (scripts or modules or [Path(part).name for part in command[:1]] or ["run"])[0]
    return _NAME.sub("_", chosen)[:40].strip("._-") or "run"


def write_info(folder: Path, info: RunInfo) -> None:
    """Whole or not at all: a reader never sees half of run.json."""
    text = json.dumps({"schema": SCHEMA, **asdict(info)}, indent=1, ensure_ascii=True)
    temporary = folder / f".run.json.{os.getpid()}"
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, folder / "run.json")
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FolderError(
            f"run.json cannot be written: {error.strerror}",
            seen=str(folder),
            hint="make room on this disk, or see who may write there",
        ) from error


def read_info(folder: Path) -> RunInfo:
    try:
        return _info(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise RunNotFound(
            f"{folder} is not a run that can be read",
            seen=f"run.json: {error}",
            hint="stoker runs lists the runs there are",
        ) from error


def _info(content: object) -> RunInfo:
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ValueError(f"not of the schema {SCHEMA}")
    info = RunInfo(**_known(content, RunInfo))
    texts = (info.id, info.cwd, *info.command, *info.settings, *info.named, *info.notes)
    if not all(isinstance(part, str) for part in texts):
        raise ValueError("a text is missing")
    float(info.started_wall), float(info.started_s), float(info.ended_s or 0.0)
    failure = RunFailure(**_known(content["failure"], RunFailure)) if content.get("failure") else None
    return replace(
        info,
        command=tuple(info.command),
        settings=tuple(info.settings),
        named=tuple(info.named),
        notes=tuple(info.notes),
        failure=failure,
    )


def _known(content: dict[str, Any], cls: type) -> dict[str, Any]:
    """Fields of a later version are left out."""
    names = {field.name for field in fields(cls)}
    return {key: value for key, value in content.items() if key in names}


@dataclass(frozen=True, slots=True)
class Listed:
    folder: Path
    info: RunInfo | None
    size_bytes: int


def listed(base: Path | None = None) -> list[Listed]:
    """All runs, oldest first; one that cannot be read is listed all the same."""
    root = home(base) / "runs"
    folders = sorted((p for p in root.glob("*") if p.is_dir()), key=_age_key) if root.is_dir() else []
    return [Listed(folder, _info_or_none(folder), size_bytes(folder)) for folder in folders]


def _age_key(folder: Path) -> tuple[float, str]:
    info = _info_or_none(folder)
    try:
        return (info.started_wall if info else folder.stat().st_mtime, folder.name)
    except OSError:
        return (0.0, folder.name)


def _info_or_none(folder: Path) -> RunInfo | None:
    try:
        return read_info(folder)
    except RunNotFound:
        return None


def find(name: str | None, base: Path | None = None) -> Path:
    """A path, a run's name or a part of one, or `latest`."""
    if name and os.path.isfile(os.path.join(name, "run.json")):
        return Path(name)
    items = listed(base)
    runs = [item.folder for item in items]
    if not runs:
        raise RunNotFound(
            "there is no recorded run here",
            seen=f"looked in {home(base)}",
            hint="stoker run -- python train.py",
        )
    if name in (None, "latest"):
        return ([item.folder for item in items if item.info is not None] or runs)[-1]
    matching = [folder for folder in runs if name in folder.name]
    if len(matching) == 1:
        return matching[0]
    raise _no_single(name, matching, runs)


def _no_single(name: str, matching: list[Path], runs: list[Path]) -> RunNotFound:
    candidates = matching or runs
    shown = ", ".join(folder.name for folder in candidates[-SHOWN:])
    more = f" and {len(candidates) - SHOWN} older" if len(candidates) > SHOWN else ""
    problem = f"{len(matching)} runs match" if matching else "no run matches"
    hint = "more of its name, or: stoker runs" if matching else "stoker runs"
    return RunNotFound(f"{problem} {name!r}", seen=f"there are: {shown}{more}", hint=hint)


def crowded_bytes(base: Path | None = None) -> int | None:
    """The size of all that is recorded where it is time to prune. Stoker removes nothing by itself."""
    total = size_bytes(home(base) / "runs") + size_bytes(home(base) / COMPARISONS)
    return total if total > CROWDED_BYTES else None


def size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


class Kept(Protocol):
    """Something recorded in a folder of its own."""

    @property
    def folder(self) -> Path: ...

    @property
    def size_bytes(self) -> int: ...


Item = TypeVar("Item", bound=Kept)


@dataclass(frozen=True, slots=True)
class Pruned(Generic[Item]):
    removed: tuple[Item, ...]
    alive: tuple[Item, ...]
    stuck: tuple[Item, ...]
    """What could not be removed."""
    kept: int


def prune(keep: int, alive: Callable[[Listed], bool], base: Path | None = None) -> Pruned[Listed]:
    return remove_old(listed(base), keep, alive)


def remove_old(items: Sequence[Item], keep: int, alive: Callable[[Item], bool]) -> Pruned[Item]:
    """All but the newest `keep`, of items oldest first; one that is alive is neither counted nor touched."""
    living = [item for item in items if alive(item)]
    rest = [item for item in items if item not in living]
    old = rest[: max(0, len(rest) - keep)]
    for item in old:
        shutil.rmtree(item.folder, ignore_errors=True)
    stuck = tuple(item for item in old if item.folder.exists())
    removed = tuple(item for item in old if item not in stuck)
    return Pruned(removed, tuple(living), stuck, len(rest) - len(old))
