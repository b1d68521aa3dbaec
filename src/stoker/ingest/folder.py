"""Walk what the user named, try each file against the list of formats, and read those that fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import NothingReadable
from stoker.ingest.formats import FORMATS, Format
from stoker.ingest.source import Source, open_source
from stoker.model.evidence import FileReading

_NOT_LOOKED_INTO = frozenset({"__pycache__", "node_modules", "site-packages"})
# Written by trainers beside their logs; large, and never text.
_NOT_TEXT = (
    ".pt",
    ".pth",
    ".pkl",
    ".npz",
    ".npy",
    ".safetensors",
    ".png",
    ".jpg",
    ".mp4",
    ".zip",
    ".gz",
    ".so",
)


@dataclass(frozen=True, slots=True)
class Collection:
    """All that was found below the given paths."""

    roots: tuple[Path, ...]
    files: tuple[FileReading, ...]
    unknown: tuple[Path, ...]
    """Text files of no known format."""
    unreadable: tuple[tuple[Path, str], ...]


def collect(paths: Sequence[Path]) -> Collection:
    files, unknown, unreadable = [], [], []
    seen: set[Path] = set()
    for root in paths:
        for path in _files_below(root):
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            try:
                reading = _read(path, root)
            except OSError as error:
                unreadable.append((path, error.strerror or str(error)))
                continue
            if reading is not None:
                files.append(reading)
            elif not path.name.startswith("events.out"):
                unknown.append(path)
    return Collection(tuple(paths), tuple(files), tuple(unknown), tuple(unreadable))


def require_something(collection: Collection) -> None:
    if any(reading.items for reading in collection.files):
        return
    asked = ", ".join(str(root) for root in collection.roots)
    raise NothingReadable(
        f"nothing that can be judged in {asked}",
        seen=_what_was_there(collection),
        hint="one of these, known by content, any name:\n"
        + "\n".join(f"          {known.name}: {known.looks_like}" for known in FORMATS),
    )


def _what_was_there(collection: Collection) -> str:
    missing = [str(root) for root in collection.roots if not root.exists()]
    if missing:
        return f"{', '.join(missing)} does not exist"
    pipes = [str(root) for root in collection.roots if not root.is_dir() and not root.is_file()]
    if pipes:
        return f"{', '.join(pipes)} is not a regular file"
    if collection.unreadable:
        path, why = collection.unreadable[0]
        return f"{len(collection.unreadable)} files cannot be opened, the first is {path} ({why})"
    if collection.files:
        return f"{len(collection.files)} files of a known kind, without one usable line"
    if not collection.unknown:
        return "no text file at all"
    names = [path.name for path in collection.unknown[:4]] + ["…"] * (len(collection.unknown) > 4)
    noun = "file" if len(collection.unknown) == 1 else "files"
    return f"{len(collection.unknown)} {noun} of no known kind: {', '.join(names)}"


def _files_below(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        if root.is_file():  # never a pipe: it would be waited for, and cannot be read twice
            yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _NOT_LOOKED_INTO
        )
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and not name.lower().endswith(_NOT_TEXT) and path.is_file():
                yield path


def _read(path: Path, root: Path) -> FileReading | None:
    source = open_source(path)
    known = format_of(source) if source else None
    if source is None or known is None:
        return None
    reading = known.read(source)
    return FileReading(
        path=path,
        root=root,
        format=known.name,
        items=reading.items,
        bad_count=reading.ledger.count,
        bad_lines=tuple(reading.ledger.kept),
        notes=reading.notes,
    )


def format_of(source: Source) -> Format | None:
    return next((known for known in FORMATS if known.recognise(source)), None)
