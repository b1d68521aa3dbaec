"""On a real GPU: a training under Stoker is the same training, and waits and copies are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"


def plain(script: Path, *args: str) -> str:
    done = subprocess.run([sys.executable, str(script), *args], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def watched(folder: Path, script: Path, *args: str) -> tuple[str, dict]:
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, "PYTHONPATH": path, "STOKER_HOME": str(folder / ".stoker")}
    command = [sys.executable, "-m", "stoker", "run", "--quiet", "--", sys.executable, str(script), *args]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    why = [sys.executable, "-m", "stoker", "why", "--json"]
    page = subprocess.run(why, capture_output=True, text=True, cwd=folder, env=env, check=True)
    return done.stdout.splitlines()[-1], json.loads(page.stdout)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_with_fullgraph(tmp_path: Path, mode: str) -> None:
    expected = plain(SCRIPTS / "compiled.py", mode, "60")
    result, page = watched(tmp_path, SCRIPTS / "compiled.py", mode, "60")
    assert result == expected
    (trainer,) = page["trainers"]
    assert trainer["optimizer_steps"] == [60]
    assert not trainer["hook_failures"]


def test_capture_and_replay(tmp_path: Path) -> None:
    expected = plain(SCRIPTS / "captured.py", "50")
    result, page = watched(tmp_path, SCRIPTS / "captured.py", "50")
    assert result == expected
    (trainer,) = page["trainers"]
    assert trainer["optimizer_steps"] == [4, 50]
    assert not trainer["hook_failures"]


def test_waits_and_copies_are_found_with_their_line(tmp_path: Path) -> None:
    expected = plain(SCRIPTS / "blocking.py", "120")
    result, page = watched(tmp_path, SCRIPTS / "blocking.py", "120")
    assert result == expected
    (trainer,) = page["trainers"]
    source = (SCRIPTS / "blocking.py").read_text().splitlines()
    exact = [line for line in trainer["lines"] if line["exact"]]
    found = {(line["phase"], source[line["place"]["leaf"][1] - 1].split("# ")[-1]) for line in exact[:4]}
    assert {("h2d", "the copy"), ("sync", "the wait"), ("sync", "the hidden wait")} <= found
    assert trainer["phase_pct"]["sync"] + trainer["phase_pct"]["h2d"] > 20


def test_fork_after_cuda(tmp_path: Path) -> None:
    expected = plain(SCRIPTS / "forks.py", "80")
    result, page = watched(tmp_path, SCRIPTS / "forks.py", "80")
    assert result == expected
    assert {worker["number"] for worker in page["trainers"][0]["workers"]} == {0, 1}


def test_cuda_is_not_touched_by_us(tmp_path: Path) -> None:
    result, page = watched(tmp_path, SCRIPTS / "never_cuda.py", "200")
    assert result == "False"
    assert page["trainers"][0]["optimizer_steps"] == [200]


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("vision.py", ["--steps", "40", "--num-workers", "2", "--image-size", "64"]),
        ("offpolicy.py", ["--steps", "600", "--warmup-steps", "100"]),
        ("onpolicy.py", ["--num-envs", "512", "--iterations", "4", "--method", "ase"]),
        ("distill.py", ["--steps", "30", "--num-workers", "2"]),
    ],
)
def test_losses_are_the_same_to_the_last_bit(tmp_path: Path, script: str, flags: list[str]) -> None:
    path = ROOT / "examples" / script
    if script == "offpolicy.py":
        pytest.importorskip("gymnasium")
    plain(path, *flags, "--losses", str(tmp_path / "plain"))
    watched(tmp_path, path, *flags, "--losses", str(tmp_path / "watched"))
    assert (tmp_path / "plain").read_text() == (tmp_path / "watched").read_text()
