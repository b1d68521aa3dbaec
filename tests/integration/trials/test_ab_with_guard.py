"""`stoker ab` of a script that saves, resumes and refuses: the user's folder is as before, both arms begin at
step 0, and a flag that does nothing is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .conftest import SCRIPTS, shadow_of, tree_hash

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parents[3] / "src"


def ab(project: Path, home: Path, *words: str) -> tuple[int, dict[str, object], str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("STOKER", "PYTHON"))}
    env = {
        **base,
        "PYTHONPATH": str(SOURCE),
        "STOKER_HOME": str(home),
        "XDG_RUNTIME_DIR": str(home.parent),
        "OMP_NUM_THREADS": "1",
    }
    own = ["--window", "1s", "--pairs", "3", "--yes", "--json"]
    script = [sys.executable, str(SCRIPTS / "careless.py"), "--out", "run"]
    argv = [sys.executable, "-m", "stoker", "ab", *own, *words, "--", *script]
    done = subprocess.run(
        argv, cwd=project, env=env, capture_output=True, text=True, timeout=400, check=False
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture
def used(project: Path) -> Path:
    """With what an earlier run left: a checkpoint and an out-folder."""
    (project / "ckpt").mkdir()
    (project / "run").mkdir()
    (project / "run" / "log.csv").write_text("1,0.5\n", encoding="utf-8")
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.01, momentum=0.9)
    torch.save({"optimizer": optimizer.state_dict(), "step": 777}, project / "ckpt" / "last.pt")
    return project


def test_the_users_folder_is_as_before_and_both_arms_begin_at_step_0(used: Path, tmp_path: Path) -> None:
    before = tree_hash(used)
    code, said, err = ab(used, tmp_path / "home", "--a=--nap=0.02", "--b=--nap=0.004")
    assert code in (0, 1), err
    trials = said["trials"]
    assert isinstance(trials, list)
    assert {one["arm"] for one in trials} == {"A", "B"}, err
    for one in trials:
        folder = Path(str(said["folder"])) / one["folder"]
        log = (folder / "output.log").read_text(encoding="utf-8")
        assert "began at step 0" in log, log
        assert one["failure"] is None
        assert not one["invalid"]
        assert not one["dead"]
        assert not shadow_of(folder).exists()
    assert tree_hash(used) == before


@pytest.mark.parametrize("flag", ["flag:--lr=0.5", "flag:--cuda-prefetch=2"])
def test_a_flag_that_does_nothing_is_named(project: Path, tmp_path: Path, flag: str) -> None:
    """One by what the run shows, one since no code reads it."""
    code, said, err = ab(project, tmp_path / "home", "--b", flag)
    assert (code, said["verdict"]) == (1, "INVALID"), err
    assert f"{flag}: this setting has no effect in this script" in str(said["sentence"])
    trials = said["trials"]
    assert isinstance(trials, list)
    assert len(trials) == 2  # known after the first of B


def test_a_flag_the_script_follows_is_not(project: Path, tmp_path: Path) -> None:
    _, said, err = ab(project, tmp_path / "home", "--b", "flag:--batch-size=16")
    trials = said["trials"]
    assert isinstance(trials, list)
    assert len(trials) >= 2, err
    assert not any(one["dead"] or one["doubtful"] for one in trials)
