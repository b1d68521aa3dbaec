"""What a process has written about itself so far, read on while it still writes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.inside import wire


@dataclass
class Followed:
    """One process's file, read on from where the last look ended."""

    path: Path
    pid: int
    offset: int = 0
    ticks: int = 0
    env_steps: int = 0
    steps: int = 0
    """Ticks and calls of environments: whether something moves."""
    ranked: bool = False
    failed: bool = False
    ended: bool = False
    slowest_s: list[float] = field(default_factory=list)

    def read_on(self) -> None:
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                self._take(row)

    def _take(self, row: dict[str, Any]) -> None:
        match row.get("k"):
            case wire.SECOND:
                self.ticks, self.env_steps = int(row.get("ticks") or 0), int(row.get("env_steps") or 0)
                self.steps = self.ticks + int(row.get("env_calls") or 0)
                if row.get("tick_max_s"):
                    self.slowest_s.append(float(row["tick_max_s"]))
            case wire.RANK:
                self.ranked = self.ranked or (row.get("rank") is not None and (row.get("world") or 1) > 1)
            case wire.FAILURE:
                self.failed = True
            case wire.END:
                self.ended = True

    @property
    def trains(self) -> bool:
        return self.ranked or self.steps > 0


@dataclass
class FollowedRun:
    """All processes of a run that is being written."""

    folder: Path
    _files: dict[Path, Followed] = field(default_factory=dict)

    def read_on(self) -> list[Followed]:
        for path in (self.folder / "inside").glob("*-*.jsonl"):
            pid = path.name.partition("-")[0]
            if path not in self._files and pid.isdigit():
                self._files[path] = Followed(path, int(pid))
        for one in self._files.values():
            one.read_on()
        return list(self._files.values())
