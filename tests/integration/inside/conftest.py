"""Runs a command the way `stoker run` does, without the page, and reads back what its processes recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
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


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """`watch("python", "x.py", named=["env=m:C.step"], env={…})`; `python` is the one of the tests."""

    def run(*command: str, named: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Watched:
        words = [sys.executable if word == "python" else str(word) for word in command]
        folder = folders.create(words, tmp_path)
        info = RunInfo(folder.name, tuple(words), str(tmp_path), time.time(), time.perf_counter())
        folders.write_info(folder, info)
        done = call(
            words, tmp_path, injection.environment(environment(env or {}), folder, folder.name, named)
        )
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
