"""The write guard with a script that writes in every way it can: the user's folder stays as it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from stoker.trials.guard.coverage import find_coverage
from stoker.trials.guard.mode import GuardMode
from stoker.trials.guard.plan import GuardPlan
from stoker.trials.guard.shadow_folder import made_shadow
from stoker.trials.trial import TrialResult

from .conftest import shadow_of, tree_hash

GUARDS = [GuardMode.OVERLAY, GuardMode.FENCE, GuardMode.REDIRECT]
Trial = Callable[..., TrialResult]


def log(result: TrialResult) -> str:
    return result.log.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("mode", GUARDS)
def test_a_clean_folder_stays_clean_and_each_trial_begins_anew(
    mode: GuardMode, project: Path, shadows: Path, trial: Trial
) -> None:
    before = tree_hash(project)
    for _ in range(2):
        result = trial(mode, "hostile.py", str(project))
        assert result.failure is None, log(result)
        assert "data 1 2 3" in log(result)
        assert "first step 0" in log(result)
        assert "rows 1" in log(result)
        assert log(result).endswith("done\n")
        assert not shadow_of(result.folder).exists()
    assert tree_hash(project) == before
    assert list(shadows.iterdir()) == []


@pytest.mark.parametrize("mode", GUARDS)
def test_what_an_earlier_run_left_is_hidden(
    mode: GuardMode, project: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint to resume from, and a folder the script refuses to write to."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # four trials import torch: quicker as it is compiled
    (project / "ckpt").mkdir()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    torch.save({"optimizer": optimizer.state_dict(), "step": 777}, project / "ckpt" / "last.pt")
    (project / "run").mkdir()
    (project / "run" / "kept").write_text("x", encoding="utf-8")
    before = tree_hash(project)
    result = trial(mode, "hostile.py", str(project))
    assert result.failure is None, log(result)
    assert not result.resumed
    assert "first step 0" in log(result)
    assert {path.name for path in result.hidden} == {"last.pt", "run"}
    again = trial(mode, "hostile.py", str(project))
    assert "first step 0" in log(again)
    assert tree_hash(project) == before


@pytest.mark.parametrize("mode", GUARDS)
def test_a_data_set_is_no_checkpoint_and_a_folder_is_hidden_as_a_whole(
    mode: GuardMode, project: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are loaded with torch.load; the checkpoint in the folder is written over by every trial."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 1).parameters(), lr=0.01, momentum=0.9)
    (project / "runs").mkdir()
    torch.save(torch.ones(8, 4), project / "data" / "x.pt")
    for path in ("runs/last.pt", "elsewhere.pt"):
        torch.save({"optimizer": optimizer.state_dict(), "step": 777}, project / path)
    before = tree_hash(project)
    for _ in range(3):
        result = trial(mode, "resuming.py", "--out", "runs")
        assert result.failure is None, log(result)
        assert log(result) == "first step 0\ndone\n"
        assert {path.name for path in result.hidden} == {"runs", "elsewhere.pt"}
    assert tree_hash(project) == before


@pytest.mark.parametrize("mode", GUARDS)
def test_what_a_script_needs_is_shown_again_and_a_count_of_steps_hidden(
    mode: GuardMode, project: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (project / "data" / "tokens.bin").write_bytes(b"1234")
    torch.save(["a", "b"], project / "vocab.pt")
    torch.save({"model": torch.nn.Linear(4, 1).state_dict(), "step": 1700}, project / "weights.pt")
    before = tree_hash(project)
    for _ in range(2):
        result = trial(mode, "inputs.py")
        assert result.failure is None, log(result)
        assert log(result) == "first step 0\ndone\n"
        assert {path.name for path in result.hidden} == {"weights.pt"}
    assert tree_hash(project) == before


def test_an_overlay_catches_a_shell(project: Path, trial: Trial) -> None:
    before = tree_hash(project)
    result = trial(GuardMode.OVERLAY, "hostile.py", str(project), "--sh")
    assert "shell\ndone" in log(result)
    assert tree_hash(project) == before


def test_the_fence_refuses_a_shell(project: Path, trial: Trial) -> None:
    before = tree_hash(project)
    result = trial(GuardMode.FENCE, "hostile.py", str(project), "--sh")
    assert "Permission denied" in log(result) or "cannot create" in log(result)
    assert result.exit.code == 1
    assert tree_hash(project) == before


def test_without_a_guard_the_folder_is_changed(project: Path, trial: Trial) -> None:
    """So the tests above can fail."""
    before = tree_hash(project)
    assert trial(GuardMode.OFF, "hostile.py", str(project)).failure is None
    assert tree_hash(project) != before


@pytest.mark.parametrize("asked", ["_is_open_to_us", "layer_folder", "_like"])
def test_a_temporary_folder_of_another_program_may_go_while_the_guard_is_put_up(
    asked: str, project: Path, shadows: Path
) -> None:
    """Between any two of the guard's calls: its neighbours in the temporary folder are not ours."""
    if find_coverage(GuardMode.OVERLAY, cwd=project).mode is not GuardMode.OVERLAY:
        pytest.skip("no overlay here")
    neighbour = shadows / "neighbour"
    neighbour.mkdir()
    plan = GuardPlan(GuardMode.OVERLAY, str(made_shadow(shadows)), str(project)).write(shadows)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _GOES,
            asked,
            str(neighbour),
            str(plan),
            "--",
            "sh",
            "-c",
            "echo new > notes.txt",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not neighbour.exists()
    assert (project / "notes.txt").read_text(encoding="utf-8") == "old notes"


_GOES = """
import os, sys
from stoker.trials.guard import entry, overlay
name, neighbour, *rest = sys.argv[1:]
kept = getattr(overlay, name)
def asked(*args):
    if neighbour in args and os.path.isdir(neighbour):
        os.rmdir(neighbour)
        return kept(*args) or True
    return kept(*args)
setattr(overlay, name, asked)
sys.exit(entry.main(rest))
"""
