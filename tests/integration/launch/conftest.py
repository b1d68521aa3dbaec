"""Runs the driver the way a shell, a terminal or cron would, and leaves nothing behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.launch import tree
from stoker.launch.procfs import Identity

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src"
DEADLINE_S = 20.0  # for a loaded machine; nothing here takes more than a second or two otherwise
_numbers = itertools.count()


def wait_until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain for: {what}"
        time.sleep(0.01)


class Driven:
    """One run of the driver."""

    def __init__(self, folder: Path, run_id: str, argv: list[str], *, tty: bool, wrapper: list[str]) -> None:
        self.folder = folder
        self.run_id = run_id
        self.facts_file = folder / "facts.json"
        options = ["--run-id", run_id, "--facts", str(self.facts_file)]
        self.argv = [*wrapper, sys.executable, str(HERE / "driver.py"), *options, *argv]
        self.master: int | None = None
        self.shown = b""
        """What came out of the terminal so far."""
        self.process = self._on_a_terminal() if tty else self._without()

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(SOURCE)}

    def _without(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self._environment(),
            start_new_session=True,
        )

    def _on_a_terminal(self) -> subprocess.Popen[bytes]:
        """The driver leads a session in the foreground of a terminal of its own."""
        self.master, slave = os.openpty()
        try:
            return subprocess.Popen(
                self.argv,
                env=self._environment(),
                start_new_session=False,
                preexec_fn=lambda: os.login_tty(slave),
                pass_fds=[slave],
            )
        finally:
            os.close(slave)

    def press(self, keys: bytes) -> None:
        assert self.master is not None
        os.write(self.master, keys)

    def facts(self) -> dict[str, int]:
        wait_until(self.facts_file.exists, "the driver to start its command")
        found: dict[str, int] = json.loads(self.facts_file.read_text())
        return found

    def members(self) -> list[tree.Member]:
        return tree.members(self.run_id, Identity(-1, None))

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)

    def finish(self) -> tuple[int, bytes, bytes]:
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out or b"", err or b""

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        tree.end(self.members, steps=[signal.SIGKILL])
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        if self.master is not None:
            os.close(self.master)
        self.process.wait(DEADLINE_S)


Drive = Callable[..., Driven]


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Drive]:
    """`drive("--limit", "1", "--", "sleep", "9")` starts it; the end of the test ends it."""
    started: list[Driven] = []

    def start(*argv: str, tty: bool = False, wrapper: tuple[str, ...] = ()) -> Driven:
        run_id = f"test-{os.getpid()}-{next(_numbers)}-{time.time_ns()}"
        started.append(Driven(tmp_path, run_id, list(argv), tty=tty, wrapper=list(wrapper)))
        return started[-1]

    yield start
    for driven in started:
        driven.clean_up()


class SignalLog:
    """The command that writes down its signals, and what it wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.command = [sys.executable, str(HERE / "signal_log.py"), str(path)]

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.lines(), f"{line!r} in the log of signals")

    def heard(self) -> list[str]:
        return self.lines()[1:]


@pytest.fixture
def signal_log(tmp_path: Path) -> SignalLog:
    return SignalLog(tmp_path / "signals.log")


@pytest.fixture
def until() -> Callable[[Callable[[], object], str], None]:
    return wait_until
