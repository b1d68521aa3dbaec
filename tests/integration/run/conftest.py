"""The command `stoker` as a user starts it, in a folder of its own, with the stub torch within reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker.launch import procfs, tree
from stoker.launch.procfs import Identity

TESTS = Path(__file__).parents[2]
SOURCE = TESTS.parent / "src"
STUBS = TESTS / "stubs"
DEADLINE_S = 60.0  # for a machine with other things to do
Word = str | bytes | Path


@dataclass(frozen=True)
class Done:
    code: int
    out: bytes
    err: bytes

    @property
    def page(self) -> str:
        return self.err.decode("utf-8", "replace")

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


class Bench:
    """One folder to work in, and the processes started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / ".stoker"
        self.started: list[subprocess.Popen[bytes]] = []
        self.descriptors: list[int] = []

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        mine = ("STOKER", "PYTHON", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
        base = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
        return {**base, "PYTHONPATH": f"{SOURCE}{os.pathsep}{STUBS}", **(extra or {})}

    def argv(self, words: Sequence[Word]) -> list[str | bytes]:
        plain = [str(word) if isinstance(word, Path) else word for word in words]
        chosen = [sys.executable if word == "python" else word for word in plain]
        return [sys.executable, "-m", "stoker", *chosen]

    def stoker(self, *words: Word, wrapper: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Done:
        done = subprocess.run(
            [*wrapper, *self.argv(words)],
            cwd=self.folder,
            env=self.environment(env),
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: Word) -> subprocess.Popen[bytes]:
        return self.start_with({}, *words)

    def start_with(self, env: Mapping[str, str], *words: Word) -> subprocess.Popen[bytes]:
        """In the background, with these variables besides."""
        pipe, environment = subprocess.PIPE, self.environment(env)
        process = subprocess.Popen(
            self.argv(words), cwd=self.folder, env=environment, stdout=pipe, stderr=pipe
        )
        self.started.append(process)
        return process

    def start_on_terminal(self, *words: Word) -> subprocess.Popen[bytes]:
        """In the foreground of a terminal whose other end is `terminal`."""
        master, slave = os.openpty()
        process = subprocess.Popen(
            self.argv(words),
            cwd=self.folder,
            env=self.environment({"TERM": "xterm"}),
            preexec_fn=lambda: os.login_tty(slave),
            pass_fds=[slave],
        )
        os.close(slave)
        self.descriptors.append(master)
        self.started.append(process)
        return process

    @property
    def terminal(self) -> int:
        return self.descriptors[-1]

    def runs(self) -> list[Path]:
        """Oldest first."""
        return sorted((self.home / "runs").glob("*-*"), key=lambda path: path.stat().st_mtime_ns)

    def run_json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.runs()[-1] / "run.json").read_text())
        return found

    def script(self, text: str, name: str = "train.py") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def members(self, run: Path) -> list[tree.Member]:
        return tree.members(run.name, Identity(-1, None))

    def clean_up(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
        for run in self.runs() if self.home.exists() else ():
            tree.end(lambda run=run: self.members(run), steps=[signal.SIGKILL])
        for process in self.started:
            process.wait(DEADLINE_S)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for descriptor in self.descriptors:
            os.close(descriptor)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.clean_up()


@pytest.fixture
def stubs() -> Path:
    return STUBS


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.02)
    return found


@pytest.fixture
def until() -> Callable[[Callable[[], Any], str], Any]:
    return wait_until


@pytest.fixture
def children() -> Callable[[int], list[int]]:
    def of(pid: int) -> list[int]:
        stats = map(procfs.read_stat, procfs.list_pids() or ())
        return [stat.pid for stat in stats if stat and stat.parent_pid == pid and not stat.dead]

    return of
