"""One task of the lab, run under `stoker run`, and the rows it gives: one, or with `both` three.

Attempt(task, "cuda", Mode.BOTH, folder, card).rows()
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from beside import COUNTERS, SETTINGS, recorded_run, start_beside, told_by_gpm
from cases import Task
from recording import hidden_texts, keep
from scoring import right
from verdicts import Row, failed, planned_task, said
from watched import ROOT, asked, recorded

from stoker.launch.watcher import Watcher

GATE = Path(__file__).resolve().with_name("gate.py")
STUCK_S = 180.0
"""More than a start, waiting for others that hang, and its training may take."""
ACCOUNT = ("ticks", "ticks_per_s", "units_per_s", "samples_per_s", "injected_s", "injected_frac")


class Mode(StrEnum):
    """Which counters of the GPU there are."""

    GPM = "gpm"
    NO_GPM = "no-gpm"
    BOTH = "both"


def kinds(mode: Mode, device: str) -> list[Row]:
    """What each row of a run says of itself: whether the card's own counters were there (a CPU has none), and
    with `both`, whether the deep window was, too."""
    if mode is Mode.BOTH:
        return [{"gpm": True}, {"gpm": True, "deep_too": True}, {"gpm": False}]
    return [{"gpm": mode is Mode.GPM if device == "cuda" else None}]


@dataclass(frozen=True, slots=True)
class Attempt:
    task: Task
    device: str
    mode: Mode
    folder: Path
    """A temporary one, all its own."""
    card: str | None = None
    """The lock of the card, where several are under way."""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def beside(self) -> Path:
        return self.folder / "beside"

    @property
    def settings(self) -> dict[str, str]:
        found = {"STOKER_HOME": str(self.home), "LAB_TURN": str(self.folder / "turn")}
        if self.card:
            found["LAB_CARD"] = self.card
        return found | ({} if self.mode is Mode.GPM else SETTINGS)

    def rows(self) -> list[Row]:
        """Of a run that fails as many as of one that does not."""
        base = planned_task(self.task)
        try:
            account = self._recorded()
            return [
                {**base, **kind, **account, **said(self._why(run), self.task.case, base["expected"])}
                for kind, run in zip(kinds(self.mode, self.device), self._runs(), strict=True)
            ]
        except Exception as error:  # one script that fails must not end the lab
            return [{**base, **kind, **failed(error)} for kind in kinds(self.mode, self.device)]

    def _recorded(self) -> Row:
        """The script's own account of the run."""
        out = self.folder / "stdout"
        command = [str(GATE), *self.task.command(self.device)]
        with out.open("wb") as stdout:
            recorded(
                command,
                self.folder,
                [],
                env=self.settings,
                stdout=stdout,
                timeout_s=STUCK_S + self.task.seconds,
                beside=self._start_beside if self.mode is Mode.BOTH else None,
            )
        return account(out.read_text("utf-8"))

    def _start_beside(self, run: subprocess.Popen[bytes]) -> Watcher | None:
        return start_beside(run, self.home, self.beside, self.folder / "turn")

    def _runs(self) -> list[Path]:
        """One for each of `kinds`."""
        run = recorded_run(self.home)
        if self.mode is not Mode.BOTH:
            return [run]
        return [*told_by_gpm(run, self.beside / COUNTERS, self.folder), run]

    def _why(self, run: Path) -> dict[str, Any]:
        return asked(self.folder, self.settings, run)

    def keep(self, rows: list[Row], place: Path) -> int | None:
        """Its size in bytes. Runs told wrong lie apart, for whoever mends the rule; mended ones too."""
        run = next(self.home.glob("runs/*/run.json"), None)
        if run is None:
            return None
        hidden = hidden_texts(ROOT, self.folder, socket.gethostname())
        gpm = self.beside / COUNTERS if self.mode is Mode.BOTH else None
        return keep(run.parent, told_of(rows, self.device), hidden, self._path(rows, place), gpm)

    def _path(self, rows: list[Row], place: Path) -> Path:
        task, kind = self.task, "" if self.device == "cpu" and self.mode is not Mode.BOTH else f"-{self.mode}"
        name = f"{task.case.name}-{task.case.half}-{self.device}{kind}-{task.dose}.tar.xz"
        if task.fixed:
            return place / "fixed" / name
        fine = all(right(row) and (row["expected"] or row["outcome"] == "healthy") for row in rows)
        return place / name if fine else place / "wrong" / name


def told_of(rows: list[Row], device: str) -> Row:
    """What a recording says of itself; the last row is that of the run as it was recorded."""
    row = rows[-1]
    same = ("name", "half", "dose", "fixed", "control", "expected", "codes", "outcome", "gpm", "failed")
    told = {name: row[name] for name in same if row.get(name) is not None}
    told |= {"device": device, "date": time.strftime("%Y-%m-%d")}
    for name, other in zip(("with_gpm", "with_gpm_and_deep"), rows[:-1], strict=False):
        told[name] = {field: other[field] for field in ("codes", "outcome")}
    return told | {"account": {name: row[name] for name in ACCOUNT if name in row}}


def account(printed: str) -> Row:
    """The last line that is the script's own account."""
    for line in reversed(printed.splitlines()):
        if line.startswith("{") and "ticks_per_s" in line:
            found: Row = json.loads(line)
            return found
    raise LookupError("the script printed no account of itself")
