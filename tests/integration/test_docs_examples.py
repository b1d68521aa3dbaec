"""Every command on the page of the bundled trainers runs as it is written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"^```sh\n(.*?)^```", (ROOT / "docs/examples.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)
PROGRESS = r"^epoch \d+ .*accuracy|^step \d+ .*(return|samples/s)|^iteration \d+ .*samples/s .*return"


def run_in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["sh", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_the_page_has_commands_for_all_trainers() -> None:
    trainers = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert {"vision.py", "offpolicy.py", "onpolicy.py", "distill.py"} <= trainers
    assert {name for name in trainers if f"examples/{name}" in "".join(BLOCKS)} == trainers


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_commands_run_as_written(block: str, tmp_path: Path) -> None:
    done = run_in_shell(block, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(PROGRESS, done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ppo", "amp", "ase"])
def test_onpolicy_learns(method: str, tmp_path: Path) -> None:
    flags = f"--device cpu --method {method} --iterations 30 --seed 3"
    done = run_in_shell(f"exec python examples/onpolicy.py {flags}", tmp_path)
    assert done.returncode == 0, done.stderr
    returns = [float(found) for found in re.findall(r" return (\S+)", done.stdout)]
    assert len(returns) == 30
    assert returns[-1] > 2 * returns[0] + 10, returns  # 5 for a random policy, 48 at best


@pytest.mark.slow
def test_distill_learns(tmp_path: Path) -> None:
    flags = "--device cpu --steps 200 --seq-len 32 --num-workers 0 --lr 3e-3"
    done = run_in_shell(f"exec python examples/distill.py {flags}", tmp_path)
    assert done.returncode == 0, done.stderr
    losses = [float(found) for found in re.findall(r" loss (\S+)", done.stdout)]
    assert losses[-1] < 0.7 * losses[0], losses


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["sac", "ddpg"])
def test_offpolicy_repeats_its_losses(algo: str, tmp_path: Path) -> None:
    flags = f"--device cpu --algo {algo} --steps 600 --num-envs 3 --update-interval 4"
    once = f"python examples/offpolicy.py {flags}"
    done = run_in_shell(f"{once} --losses a.txt\n{once} --losses b.txt\n", tmp_path)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "a.txt").read_text().splitlines()
    assert first == (tmp_path / "b.txt").read_text().splitlines()
    assert len(set(first)) > 50


def test_offpolicy_without_gymnasium_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "gymnasium.py").write_text("raise ImportError('no gymnasium here')\n")
    done = run_in_shell("PYTHONPATH=$PWD exec python examples/offpolicy.py --steps 1", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "offpolicy.py needs Gymnasium: pip install gymnasium\n"
