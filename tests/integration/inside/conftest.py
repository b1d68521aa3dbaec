"""Runs a command the way `stoker run` does, without the page, and reads back what its processes recorded."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.diagnose.summary import Summary, Trainer, summarise
from stoker.launch import injection
from stoker.model.record import ProcessRecord
from stoker.model.run import RunInfo
from stoker.store import folder as folders
from stoker.store.reading import load

TESTS = Path(__file__).parents[2]
SCRIPTS, STUBS = TESTS / "scripts", TESTS / "stubs"
DEADLINE_S = 240.0  # for a machine with other things to do


@dataclass(frozen=True)
class Watched:
    """What a command printed and what was recorded of it."""

    folder: Path
    code: int
    out: str
    err: str
    summary: Summary

    @property
    def main(self) -> Trainer:
        assert len(self.summary.trainers) == 1, self.summary.trainers
        return self.summary.trainers[0]

    @property
    def processes(self) -> tuple[ProcessRecord, ...]:
        return self.summary.run.processes

    @property
    def record(self) -> ProcessRecord:
        assert len(self.processes) == 1, self.processes
        return self.processes[0]


Watch = Callable[..., Watched]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The tests' own settings for Stoker do not leak in."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("STOKER", "PYTHON"))}
    return {**base, "OMP_NUM_THREADS": "1", **extra}


def call(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=dict(env), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def new_folder(words: Sequence[str], base: Path) -> Path:
    folder = folders.create(words, base)
    info = RunInfo(folder.name, tuple(words), str(base), time.time(), time.perf_counter())
    folders.write_info(folder, info)
    return folder


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """`watch("python", "x.py", named=["env=m:C.step"], env={…})`; `python` is the one of the tests."""

    def run(
        *command: str,
        named: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        deep: str | None = None,
    ) -> Watched:
        words = [sys.executable if word == "python" else str(word) for word in command]
        folder = new_folder(words, tmp_path)
        variables = injection.environment(environment(env or {}), folder, folder.name, named, deep)
        done = call(words, tmp_path, variables)
        return Watched(folder, done.returncode, done.stdout, done.stderr, summarise(load(folder)))

    return run


@pytest.fixture
def bare(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same command without Stoker."""

    def run(*command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        words = [sys.executable if word == "python" else str(word) for word in command]
        return call(words, tmp_path, environment(env or {}))

    return run


@pytest.fixture
def scripts() -> Path:
    return SCRIPTS


@pytest.fixture
def stubs() -> Path:
    return STUBS


@pytest.fixture
def stub_env() -> dict[str, str]:
    """Where the stub torch is found first."""
    return {"PYTHONPATH": str(STUBS)}


class Zygote:
    """A process with torch imported, which forks a run for each job."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def run(self, job: Mapping[str, object]) -> int:
        if self.process is None:
            command = [sys.executable, str(Path(__file__).with_name("zygote.py"))]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                command, env=environment({}), stdin=pipe, stdout=pipe, text=True, bufsize=1
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        return int(self.process.stdout.readline())

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.close()


@pytest.fixture
def forked(zygote: Zygote, tmp_path: Path) -> Callable[..., Watched]:
    """`forked(script, "--steps", "9")`: a run as `watch` does it, in a fork of a process that has torch."""
    numbers = itertools.count()

    def run(
        script: Path,
        *argv: str,
        watched: bool = True,
        named: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        before: str = "",
        after: str = "",
    ) -> Watched:
        folder = new_folder([str(script), *argv], tmp_path)
        number = next(numbers)
        out, err = tmp_path / f"out{number}", tmp_path / f"err{number}"
        variables = injection.environment(environment(env or {}), folder, folder.name, named)
        job = {
            "script": str(script),
            "argv": argv,
            "cwd": str(tmp_path),
            "env": {k: v for k, v in variables.items() if v != os.environ.get(k)} if watched else {},
            "out": str(out),
            "err": str(err),
            "site": str(injection.SITE) if watched else None,
            "before": before,
            "after": after,
        }
        code = zygote.run(job)
        return Watched(folder, code, out.read_text(), err.read_text(), summarise(load(folder)))

    return run
