"""The journal of a comparison: one line of JSON per fact, appended and flushed to the disk, never rewritten.

A kill leaves at most one torn line, which a reader passes over; the next writer begins a new line after it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.errors import FolderError, RunNotFound
from stoker.store.rows import json_rows
from stoker.trials.ab import measure, plan
from stoker.trials.ab.measure import ArmMeasure
from stoker.trials.ab.plan import Plan

SCHEMA = "stoker.ab.journal/1"
NAME = "journal.jsonl"


@dataclass(frozen=True, slots=True)
class Session:
    """What a journal holds."""

    folder: Path
    plan: Plan
    measures: tuple[ArmMeasure, ...]
    ended: bool
    """An answer was reached; else it can go on."""
    unreadable: int = 0


class Journal:
    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise _cannot(self.path, error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise FolderError(
                "this comparison is running already",
                seen=f"{self.path} is locked",
                hint="wait for it, or begin another one",
            ) from error

    def begin(self, planned: Plan) -> None:
        self._append({"k": "plan", "schema": SCHEMA, **plan.as_row(planned)})

    def add(self, one: ArmMeasure) -> None:
        self._append({"k": "arm", **measure.as_row(one)})

    def end(self, outcome: str, reason: str) -> None:
        self._append({"k": "end", "outcome": outcome, "reason": reason})

    def close(self) -> None:
        os.close(self._descriptor)

    def _append(self, row: Mapping[str, object]) -> None:
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        try:
            if self._torn():
                line = b"\n" + line
            written = os.write(self._descriptor, line)
            if written < len(line):
                raise OSError(28, os.strerror(28))  # ENOSPC: the disk took a part of it
            os.fsync(self._descriptor)
        except OSError as error:
            raise _cannot(self.path, error) from error

    def _torn(self) -> bool:
        size = os.fstat(self._descriptor).st_size
        return size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"


def is_running(folder: Path) -> bool:
    """Whether a Stoker has this journal open to write to it."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _cannot(path: Path, error: OSError) -> FolderError:
    return FolderError(
        f"the journal of this comparison cannot be written: {error.strerror}",
        seen=str(path),
        hint="make room, then the same again; stoker ab --resume goes on with what was measured",
    )


def read(folder: Path) -> Session:
    """Raises where there is no plan to be read; bad rows after it are counted."""
    planned: Plan | None = None
    measures: list[ArmMeasure] = []
    ended, unreadable = False, 0
    try:
        rows = list(json_rows(folder / NAME))
    except OSError as error:
        raise _no_session(folder, str(error.strerror)) from error
    for row in rows:
        try:
            match row and row.get("k"):
                case "plan":
                    planned = _plan(row or {})
                case "arm":
                    measures.append(measure.from_row(row or {}))
                    ended = False  # gone on with after an end
                case "end":
                    ended = True
                case _:
                    unreadable += 1
        except (KeyError, TypeError, ValueError, AttributeError):
            unreadable += 1
    if planned is None:
        raise _no_session(folder, "it has no plan that can be read")
    return Session(folder, planned, tuple(measures), ended, unreadable)


def _plan(row: Mapping[str, Any]) -> Plan:
    if row.get("schema") != SCHEMA:
        raise ValueError(f"not of the schema {SCHEMA}")
    return plan.from_row(row)


def _no_session(folder: Path, seen: str) -> RunNotFound:
    return RunNotFound(
        f"{folder} is no comparison that can be read", seen=seen, hint="stoker ab --resume without a name"
    )
