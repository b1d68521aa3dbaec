"""The lab's neighbour on the card, computing on the CPU here: whose it is, and that it ends."""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.launch import procfs, tree
from stoker.launch.injection import SITE, environment
from stoker.outside.processes import Follower

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
LAB = ROOT / "benchmarks" / "pathologies"
DEADLINE_S = 120.0  # for a machine with other things to do
RUN = "run-of-the-test"
TRAINING = f"""
import sys
sys.path.insert(0, {str(LAB)!r})
from neighbour import neighbour
with neighbour(0.1, "cpu") as pid:
    print(pid, flush=True)
    sys.stdin.readline()
print("over", flush=True)
sys.stdin.readline()
"""


class Training:
    """Waits for a line within the block, and for one after it."""

    def __init__(self, folder: Path) -> None:
        pipe = subprocess.PIPE
        env = environment({**os.environ, "LAB_CARD": "lock", "OMP_NUM_THREADS": "1"}, folder, RUN, [])
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRAINING], env=env, stdin=pipe, stdout=pipe, text=True
        )
        self.neighbour = int(self.said())
        self.descriptor = os.pidfd_open(self.neighbour)

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def neighbour_ends(self, within_s: float = DEADLINE_S) -> bool:
        return bool(select.select([self.descriptor], [], [], within_s)[0])

    def clean_up(self) -> None:
        self.process.kill()
        if not self.neighbour_ends(0):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
        os.close(self.descriptor)
        self.process.communicate()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    training = Training(tmp_path)
    yield training
    training.clean_up()


def test_it_is_none_of_the_run(training: Training) -> None:
    root = procfs.identify(training.process.pid)
    assert root is not None
    followed = {stat.pid for stat in Follower(RUN, root).look()}
    assert training.process.pid in followed
    assert training.neighbour not in followed
    assert training.neighbour not in {one.identity.pid for one in tree.members(RUN, root)}
    assert procfs.identify(training.neighbour) is not None, "it is there all the same"
    assert os.getsid(training.neighbour) != os.getsid(training.process.pid)


def test_nothing_of_stoker_is_in_its_environment(training: Training) -> None:
    told = procfs.read_text(f"/proc/{training.neighbour}/environ")
    assert told is not None
    assert "PATH=" in told
    assert not [entry for entry in told.split("\0") if entry.startswith(("STOKER", "LAB_"))]
    assert str(SITE) not in told


def test_it_is_gone_after_the_block(training: Training) -> None:
    assert not training.neighbour_ends(0)
    training.go_on()
    assert training.said() == "over"
    assert training.neighbour_ends(0)


def test_it_ends_with_a_training_that_is_killed(training: Training) -> None:
    training.process.kill()
    assert training.neighbour_ends()


def test_one_that_cannot_start_is_no_healthy_run(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour = lab("neighbour")
    monkeypatch.setattr(neighbour, "ROWS", {})
    with pytest.raises(RuntimeError, match="did not start"), neighbour.neighbour(0.5, "abacus"):
        pytest.fail("there is no such device")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(LAB))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(LAB)):
            del sys.modules[name]


@pytest.mark.parametrize(("dose", "fixed"), [(0, False), (2, True)])
def test_without_a_fault_there_is_none(
    lab: Any, monkeypatch: pytest.MonkeyPatch, dose: int, fixed: bool
) -> None:
    faults = lab("faults_card")
    monkeypatch.setattr(faults, "neighbour", lambda *words: pytest.fail(f"started {words}"))
    job = lab("lab").Job(dose, fixed, 0.01)
    faults.card_neighbour(job)
    assert job.ticks


def test_what_it_costs_is_the_time_beyond_that_of_the_ticks(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cleared away after the training is not in it."""
    now = [100.0]
    faults, clock = lab("faults_card"), SimpleNamespace(perf_counter=lambda: now[0])
    for module in (faults, lab("lab")):
        monkeypatch.setattr(module, "time", clock)
    job = lab("lab").Job(2, False, 5.0, began_s=100.0, first_s=100.0)

    class Neighbour:
        def __init__(self, share: float, device: str) -> None:
            assert (share, device) == (0.6, "cpu")

        def __enter__(self) -> None:
            job.ticks = 30

        def __exit__(self, *_: object) -> None:
            now[0] += 50.0

    def trained(job: Any, between: object) -> None:
        now[0] += 5.0

    monkeypatch.setattr(faults, "neighbour", Neighbour)
    monkeypatch.setattr(faults, "simple", trained)
    faults.card_neighbour(job)
    told = job.result()
    assert told["injected_s"] == pytest.approx(5.0 - 30 * job.tick_s)
    assert told["injected_frac"] == pytest.approx(1 - 30 * job.tick_s / 5.0)
    assert told["ticks_per_s"] == pytest.approx(20 / 5.0)


def test_as_a_script_of_the_lab(tmp_path: Path) -> None:
    words = ["card_neighbour", "--dose", "1", "--seconds", "0.5"]
    done = subprocess.run(
        [sys.executable, str(LAB / "scripts.py"), *words],
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert set(json.loads(done.stdout)) >= {"ticks", "injected_s", "injected_frac"}
