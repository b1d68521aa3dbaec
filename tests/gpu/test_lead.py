"""Whose fault the GPU's idle time is, on loops of which it is known. No wait is added: where the loop itself
has none, torch is told to raise at the first one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

from stoker.model.lead import Lead  # noqa: E402
from stoker.store.reading import load  # noqa: E402

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "lead_loops.py"
SECONDS = "7"


def lead_of(folder: Path, kind: str) -> Lead:
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    named = ["--env", "__main__:Env.step"] if "env" in kind else []
    script = [sys.executable, str(SCRIPT), kind, SECONDS]
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "run", "--quiet", *named, "--", *script],
        capture_output=True, text=True, cwd=folder, timeout=120,
        env={**os.environ, "PYTHONPATH": path, "STOKER_HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run_json,) = folder.rglob("run.json")
    (trainer,) = load(run_json.parent).trainers
    assert not trainer.hook_failures
    assert trainer.lead is not None
    print(kind, trainer.lead)
    assert trainer.lead.cost_s < 0.005 * float(SECONDS)
    return trainer.lead


def idle_frac(lead: Lead, phase: str) -> float:
    return lead.phases[phase].idle_s / lead.phases[phase].host_s


def test_an_env_that_follows_a_wait_is_idle(tmp_path: Path) -> None:
    lead = lead_of(tmp_path, "env")
    assert lead.by == "asked"
    assert idle_frac(lead, "env") > 0.98


def test_data_under_a_queue_is_hidden(tmp_path: Path) -> None:
    lead = lead_of(tmp_path, "hidden")
    assert lead.by == "events"
    assert idle_frac(lead, "data") < 0.02


def test_small_layers_are_launching(tmp_path: Path) -> None:
    lead = lead_of(tmp_path, "launching")
    host_s = sum(phase.host_s for phase in lead.phases.values())
    assert sum(phase.near_s for phase in lead.phases.values()) > 0.8 * host_s


def test_an_env_on_the_gpu_is_not_idle(tmp_path: Path) -> None:
    assert idle_frac(lead_of(tmp_path, "gpu_env"), "env") < 0.02


def test_a_plain_function_is_idle_for_what_the_queue_does_not_cover(tmp_path: Path) -> None:
    lead = lead_of(tmp_path, "function")
    assert lead.by == "events"
    assert idle_frac(lead, "other") > 0.5


@pytest.mark.parametrize("kind", ["graph", "streams"])
def test_nothing_breaks_beside(kind: str, tmp_path: Path) -> None:
    lead = lead_of(tmp_path, kind)
    assert lead.ticks >= 4
