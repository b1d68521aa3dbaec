"""Run folders on disk: make one, find one, list them, throw old ones away."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from stoker.errors import FolderError, RunNotFound
from stoker.model.run import RunInfo

SCHEMA = "stoker.run/1"
HOME = ".stoker"
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def home(base: Path | None = None) -> Path:
    """`.stoker` in the current directory, unless STOKER_HOME says otherwise."""
    chosen = os.environ.get("STOKER_HOME")
    return Path(chosen) if chosen else (base or Path.cwd()) / HOME


def create(command: Sequence[str], base: Path | None = None) -> Path:
    """A new folder nobody else has: time, script, and a random end."""
    root = home(base) / "runs"
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{script_name(command)}-{secrets.token_hex(3)}"
    folder = root / name
    try:
        root.mkdir(parents=True, exist_ok=True)
        ignore = root.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
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


def script_name(command: Sequence[str]) -> str:
    """The script's own name, for a folder people recognise."""
    scripts = [part for part in command if part.endswith((".py", ".sh"))]
    modules = [command[i + 1] for i, part in enumerate(command[:-1]) if part == "-m"]
    chosen = (scripts or modules or list(command[:1]) or ["run"])[0]
    return _NAME.sub("_", Path(chosen).stem)[:40].strip("._-") or "run"


def write_info(folder: Path, info: RunInfo) -> None:
    """Whole or not at all: a reader never sees half of run.json."""
    text = json.dumps({"schema": SCHEMA, **asdict(info)}, indent=1, ensure_ascii=True)
    temporary = folder / f".run.json.{os.getpid()}"
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, folder / "run.json")
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FolderError(f"run.json cannot be written: {error.strerror}", seen=str(folder)) from error


def read_info(folder: Path) -> RunInfo:
    try:
        content = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return _info(content)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunNotFound(
            f"{folder} is not a run that can be read",
            seen=f"run.json: {error}",
            hint="stoker runs lists the runs there are",
        ) from error


def _info(content: Mapping[str, object]) -> RunInfo:
    known = {field.name for field in fields(RunInfo)}
    values = {key: value for key, value in content.items() if key in known}
    info = RunInfo(**values)  # type: ignore[arg-type]
    return replace(info, command=tuple(info.command), notes=tuple(info.notes))


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
    """A path, a run's name or the end of one, or `latest`."""
    if name and Path(name).joinpath("run.json").is_file():
        return Path(name)
    runs = [item.folder for item in listed(base)]
    if not runs:
        raise RunNotFound(
            "there is no recorded run here",
            seen=f"looked in {home(base)}",
            hint="stoker run -- python train.py",
        )
    if name in (None, "latest"):
        return runs[-1]
    matching = [folder for folder in runs if name in folder.name]
    if len(matching) == 1:
        return matching[0]
    shown = ", ".join(folder.name for folder in (matching or runs)[-5:])
    problem = "several runs are" if matching else "no run is"
    raise RunNotFound(f"{problem} called {name!r}", seen=f"there are: {shown}", hint="stoker runs")


def size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def prune(keep: int, base: Path | None = None) -> list[Path]:
    """Remove the oldest finished runs, all but `keep`; a run that may still be alive is left."""
    finished = [item for item in listed(base) if item.info is None or item.info.ended_s is not None]
    removed = []
    for item in finished[: max(0, len(finished) - keep)]:
        shutil.rmtree(item.folder, ignore_errors=True)
        removed.append(item.folder)
    return removed
