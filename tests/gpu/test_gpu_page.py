"""On a real GPU: loops whose idle time is known, and what the page says of them, with GPM and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pynvml = pytest.importorskip("pynvml")
pytestmark = [pytest.mark.gpu, pytest.mark.alone]

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "known_answers.py"
SECONDS = "6"
POINTS = 3.0


def why(folder: Path, kind: str, **environment: str) -> tuple[dict[str, Any], str]:
    """`stoker why --json` after a run, and its page."""
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment}
    env.pop("STOKER_HOME", None)
    stoker = [sys.executable, "-m", "stoker"]
    named = ["--env", "__main__:Simulator.step"] if "env" in kind else []

    def told(*words: str) -> str:
        done = subprocess.run(
            [*stoker, *words], capture_output=True, text=True, cwd=folder, env=env, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    told("run", "--quiet", *named, "--", sys.executable, str(SCRIPT), kind, SECONDS)
    return json.loads(told("why", "--json")), told("why")


def hopper() -> bool:
    """Asked of NVML: torch would make a context on the card, beside the trainings of other tests."""
    pynvml.nvmlInit()
    found: list[int] = pynvml.nvmlDeviceGetCudaComputeCapability(pynvml.nvmlDeviceGetHandleByIndex(0))
    return tuple(found) >= (9, 0)


def gpu_of(found: dict[str, Any]) -> dict[str, Any]:
    gpu: dict[str, Any] = found["trainers"][0]["gpu"]
    assert sum(part["pct"] for part in gpu["parts"]) == pytest.approx(100, abs=1e-6)
    return gpu


@pytest.mark.parametrize("no_gpm", [False, True], ids=["gpm", "no_gpm"])
def test_an_env_before_a_loss_that_is_read_is_the_cause(tmp_path: Path, no_gpm: bool) -> None:
    found, page = why(tmp_path, "env", **({"STOKER_NO_GPM": "1"} if no_gpm else {}))
    gpu, host_pct = gpu_of(found), found["trainers"][0]["phase_pct"]["env"]
    assert host_pct > 30, page
    assert gpu["idle_by_phase_pct"]["env"] == pytest.approx(host_pct, abs=POINTS), page
    assert "is in the environment" in found["sentence"], page
    if not no_gpm and hopper():
        assert (gpu["busy_source"], gpu["real_work_source"]) == ("gpm", "gpm")


@pytest.mark.parametrize("no_gpm", [False, True], ids=["gpm", "no_gpm"])
def test_a_wait_under_the_gpus_queue_is_hidden(tmp_path: Path, no_gpm: bool) -> None:
    found, page = why(tmp_path, "hidden", **({"STOKER_NO_GPM": "1"} if no_gpm else {}))
    assert found["trainers"][0]["phase_pct"]["data"] > 25, page
    assert gpu_of(found)["idle_by_phase_pct"]["data"] < POINTS, page
    assert "data" not in found["sentence"], page


@pytest.mark.parametrize("no_gpm", [False, True], ids=["gpm", "no_gpm"])
def test_small_layers_are_launching(tmp_path: Path, no_gpm: bool) -> None:
    found, page = why(tmp_path, "small", **({"STOKER_NO_GPM": "1"} if no_gpm else {}))
    gpu = gpu_of(found)
    assert gpu["idle_pct"] > 40, page
    assert gpu["launching_pct"] > 0.8 * gpu["idle_pct"], page
    assert "(launching)" in found["sentence"], page


def test_an_env_on_the_gpu_is_not_idle(tmp_path: Path) -> None:
    found, page = why(tmp_path, "gpu_env")
    assert found["trainers"][0]["phase_pct"]["env"] > 0, page
    assert gpu_of(found)["idle_by_phase_pct"]["env"] < POINTS, page
