"""A run: a folder, the command, how it ended, and what was recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from stoker.model.gpu import GpuRecord
from stoker.model.host import HostRecord
from stoker.model.record import ProcessRecord

_RANDOM_END = re.compile(r"[0-9a-f]{6}")


def short_id(run_id: str) -> str:
    """The random end of a run's name: enough to find it, and quick to type."""
    end = run_id.rpartition("-")[2]
    return end if _RANDOM_END.fullmatch(end) else run_id


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a command did not end well: its exit as seen from outside, and what was raised inside."""

    kind: str
    """`exit-code`, `signal`; with an exception seen inside: `exception`, `out-of-memory`, `interrupted`."""
    text: str
    hint: str = ""
    exception: str | None = None
    message: str | None = None
    file: str | None = None
    line: int | None = None
    pid: int | None = None
    """The process that raised it."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The content of run.json."""

    id: str
    command: tuple[str, ...]
    cwd: str
    started_wall: float
    started_s: float
    ended_s: float | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    ended_by: str | None = None
    failure: RunFailure | None = None
    attached_pid: int | None = None
    total: str | None = None
    """The length of the whole training as the user gave it, e.g. `100000 ticks`."""
    settings: tuple[str, ...] = ()
    """What `--with` asked for; settings of the command itself are already in `command`."""
    named: tuple[str, ...] = ()
    """Options that name what no hook knows, as one would type them: `--env=sim:World.step`."""
    stoker: str = ""
    host: str = ""
    stoker_pid: int | None = None
    stoker_start_s: float | None = None
    """Start of that process after boot: with the PID it says whether Stoker still watches."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    folder: Path
    info: RunInfo
    processes: tuple[ProcessRecord, ...]
    host: HostRecord = field(default_factory=HostRecord)
    unreadable: tuple[str, ...] = ()
    """Files that could not be read, with the reason."""
    gpu: GpuRecord = field(default_factory=GpuRecord)

    @property
    def trainers(self) -> tuple[ProcessRecord, ...]:
        """Processes that stepped an optimizer; without any, those that stepped an environment, or else
        computed gradients."""
        ticking = tuple(p for p in self.processes if p.last and p.last.ticks)
        stepping = tuple(p for p in self.processes if p.last and p.last.env_steps)
        computing = tuple(p for p in self.processes if p.last and p.last.backwards)
        reading = tuple(p for p in self.processes if p.loaders)
        chosen = ticking or stepping or computing or reading
        return tuple(sorted(chosen, key=lambda p: (p.rank is None, p.rank or 0, p.began_s)))
