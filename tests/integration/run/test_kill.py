"""A run's folder can be read at any moment: while it lives, and after kill -9 of the training, the watcher or
Stoker, wherever it strikes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from stoker.diagnose.summary import summarise
from stoker.errors import RunNotFound
from stoker.launch import procfs
from stoker.report import run_json
from stoker.store.reading import load

KILLS = 50
AT_ONCE = 5
LATEST_S = 1.1  # a little longer than it takes from one write of the inside to the next
MOMENTS = ("start", "first tick", "first row")
Bench = Any
Until = Callable[[Callable[[], Any], str], Any]


@dataclass(frozen=True)
class Blow:
    number: int
    victim: str
    after: str
    delay_s: float


def plan() -> list[Blow]:
    chance = random.Random(20260101)
    victims = ("training", "watcher", "stoker")
    return [Blow(i, victims[i % 3], MOMENTS[i // 3 % 3], chance.uniform(0.0, LATEST_S)) for i in range(KILLS)]


class Struck:
    """One run that is struck, and what is found afterwards."""

    def __init__(self, bench: Bench, stubs: Path, blow: Blow, until: Until) -> None:
        self.blow, self.bench, self.until = blow, bench, until
        self.home = bench.folder / f"home{blow.number}"
        self.progress, self.stop = (bench.folder / f"{kind}{blow.number}" for kind in ("progress", "stop"))
        words = ["python", str(stubs / "ticking.py"), str(self.progress), str(self.stop)]
        environment = {"STOKER_HOME": str(self.home)}
        self.process = bench.start_with(environment, "run", "--quiet", "--", *words)

    def run(self) -> None:
        self._wait_for_the_moment()
        if self.blow.victim == "stoker":
            self.process.kill()
            self.process.wait()
            if self.progress.exists():
                self.sees_training_go_on()
        else:
            self._kill_child_of_stoker()
            if self.blow.victim == "watcher":
                self.until(self.ticks, "the first tick")
                self.read()  # while it lives
                self.stop.touch()
            self.process.communicate(timeout=240)
        self.stop.touch()

    def _wait_for_the_moment(self) -> None:
        if self.blow.after == "first tick":
            self.until(self.ticks, "the first tick")
        if self.blow.after == "first row":
            self.until(self._has_row, "the first row")
        time.sleep(self.blow.delay_s)

    def _has_row(self) -> bool:
        return any(b'"second"' in path.read_bytes() for path in self.home.glob("runs/*/inside/*-0.jsonl"))

    def _kill_child_of_stoker(self) -> None:
        watcher = self.blow.victim == "watcher"

        def victim() -> int | None:
            for stat in map(procfs.read_stat, procfs.list_pids() or ()):
                if stat and stat.parent_pid == self.process.pid:
                    command = procfs.read_text(f"/proc/{stat.pid}/cmdline") or ""
                    if ("stoker.outside.watch" in command) == watcher and str(self.bench.folder) in command:
                        return stat.pid
            return None

        with contextlib.suppress(ProcessLookupError):
            os.kill(self.until(victim, f"the {self.blow.victim} to appear"), signal.SIGKILL)

    def ticks(self) -> int:
        return int(self.progress.read_text() or 0) if self.progress.exists() else 0

    def sees_training_go_on(self) -> None:
        before = self.ticks()
        self.until(lambda: self.ticks() > before, "the training to go on without Stoker")

    def folder(self) -> Path | None:
        return next(iter((self.home / "runs").glob("*-*")), None)

    def read(self) -> dict[str, Any] | None:
        """None where Stoker was killed before it wrote run.json: then there was no run."""
        folder = self.folder()
        if folder is None:
            return None
        try:
            run = load(folder)
        except RunNotFound:
            assert self.blow.victim == "stoker"
            assert not self.progress.exists(), "a training runs and run.json is not there"
            return None
        shown: dict[str, Any] = json.loads(run_json.render(summarise(run)))
        for record in run.processes:
            rows = [second.sums for second in record.seconds]
            assert all(a.ticks <= b.ticks and a.t_s < b.t_s for a, b in pairwise(rows))
            assert not rows or 0 <= rows[-1].ticks <= self.ticks() + 1
        return shown


def test_the_folder_is_readable_after_any_kill(bench: Bench, stubs: Path, until: Until) -> None:
    def strike(blow: Blow) -> Struck:
        struck = Struck(bench, stubs, blow, until)
        struck.run()
        return struck

    with ThreadPoolExecutor(AT_ONCE) as pool:
        all_struck = list(pool.map(strike, plan()))
    seen = {"training": 0, "watcher": 0, "stoker": 0}
    for struck in all_struck:
        shown = struck.read()
        ticks = sum(process["ticks"] for process in shown["processes"]) if shown else 0
        seen[struck.blow.victim] += ticks
        if struck.blow.victim == "training":
            assert shown is not None
            assert struck.process.returncode == 128 + signal.SIGKILL
            assert shown["run"]["failure"]["kind"] == "signal"
            assert not any(process["ended"] for process in shown["processes"])
        if struck.blow.victim == "watcher":
            assert shown is not None
            assert struck.process.returncode == 0
            assert ticks == struck.ticks()
            assert "the host watcher was killed by signal 9" in shown["notes"]
    assert all(seen.values()), f"nothing was ever recorded before a kill: {seen}"
