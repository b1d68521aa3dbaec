"""How a trial ends, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.errors import StokerError
from stoker.launch import tree
from stoker.launch.procfs import Identity
from stoker.model.exit import EndedBy
from stoker.model.failure import FailureClass
from stoker.store.folder import read_info
from stoker.store.reading import load
from stoker.trials import progress
from stoker.trials.guard.mode import GuardMode
from stoker.trials.trial import TrialResult

from .conftest import SCRIPTS, shadow_of, tree_hash

Trial = Callable[..., TrialResult]
PATIENCE_S = 120.0


def left_of(folder: Path) -> list[tree.Member]:
    return tree.members(read_info(folder).id, Identity(-1, None))


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.1)


def test_it_is_ended_at_its_time_with_its_whole_tree(stub_torch: None, trial: Trial) -> None:
    result = trial(GuardMode.OVERLAY, "ticking.py", "--setsid", for_s=12.0)
    assert result.exit.ended_by is EndedBy.TIME_LIMIT
    assert result.failure is None
    assert left_of(result.folder) == []
    run = load(result.folder)
    assert run.info.ended_by == "time-limit"
    assert run.trainers
    assert run.trainers[0].last is not None
    assert run.trainers[0].last.ticks > 10


def test_one_dead_rank_ends_it(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER_A_DEATH_S", 3.0)
    result = trial(GuardMode.OVERLAY, "one_rank_dies.py", for_s=300.0)
    assert result.exit.ended_by is EndedBy.STOKER
    assert result.failure is not None
    assert result.failure.kind is FailureClass.HOST_OOM
    assert any("ended early" in note for note in result.notes)
    assert left_of(result.folder) == []


@pytest.mark.parametrize(("how", "ended_by"), [("raises", EndedBy.ITSELF), ("stays", EndedBy.STOKER)])
def test_one_rank_out_of_gpu_memory_while_the_other_waits_for_it(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, how: str, ended_by: EndedBy
) -> None:
    """gloo would wait for half an hour. How long it takes really: benchmarks/failures/one_rank.py."""
    monkeypatch.setattr(progress, "AFTER_A_DEATH_S", 3.0 if ended_by is EndedBy.STOKER else 300.0)
    result = trial(GuardMode.OVERLAY, "one_rank_oom.py", how, for_s=1000.0)
    assert result.exit.ended_by is ended_by
    assert result.failure is not None
    assert result.failure.kind is FailureClass.GPU_OOM
    assert "Tried to allocate 2.00 GiB" in result.failure.evidence
    assert left_of(result.folder) == []


@pytest.mark.parametrize("mode", [GuardMode.OVERLAY, GuardMode.FENCE])
@pytest.mark.parametrize("code", ["0", "1"])
def test_a_command_that_ends_by_itself_leaves_no_process(trial: Trial, mode: GuardMode, code: str) -> None:
    result = trial(mode, "leaves.py", code)
    assert result.exit.code == int(code)
    assert "left" in result.log.read_text(encoding="utf-8")
    assert left_of(result.folder) == []


def test_a_training_that_stops_ticking_is_ended(
    stub_torch: None, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HANG_AT_LEAST_S", 4.0)
    result = trial(GuardMode.OVERLAY, "stops.py", for_s=1000.0)
    assert result.exit.ended_by is EndedBy.STOKER
    assert result.failure is not None
    assert result.failure.kind is FailureClass.HANG
    assert any("ended early: no tick for" in note for note in result.notes)
    assert left_of(result.folder) == []


def test_a_command_that_comes_first_is_behind_the_guard_and_must_succeed(project: Path, trial: Trial) -> None:
    before = tree_hash(project)
    first = (("sh", "-c", "echo 4 5 6 > data/numbers.txt"),)
    result = trial(GuardMode.OVERLAY, "hostile.py", str(project), preflight=first)
    assert "data 4 5 6" in result.log.read_text(encoding="utf-8")
    assert tree_hash(project) == before
    with pytest.raises(StokerError, match="come first failed"):
        trial(GuardMode.OVERLAY, "hostile.py", str(project), preflight=(("false",),))


@pytest.mark.parametrize("mode", [GuardMode.OVERLAY, GuardMode.FENCE])
def test_nothing_is_left_when_stoker_is_killed(
    stub_torch: None,
    mode: GuardMode,
    project: Path,
    shadows: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folder = tmp_path / "ab" / f"killed-{mode.value}"
    driver = Path(__file__).with_name("stoker_with_a_trial.py")
    argv = [sys.executable, str(driver), str(SCRIPTS / "ticking.py"), str(folder), str(project), mode.value]
    stoker = subprocess.Popen(argv, start_new_session=True)
    try:
        wait_for(lambda: (folder / "output.log").exists() and "step" in (folder / "output.log").read_text())
        assert len(left_of(folder)) >= 2
        assert len(list(shadows.iterdir())) == 1
    finally:
        os.kill(stoker.pid, signal.SIGKILL)
        stoker.wait()
    wait_for(lambda: not left_of(folder))
    wait_for(lambda: not list(shadows.iterdir()))
    wait_for(lambda: not shadow_of(folder).exists())
