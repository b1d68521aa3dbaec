"""The lead on loops that never wait: torch is told to raise at the first wait, so none is added. (What the
page makes of it, on loops whose idle time is known: test_gpu_page.py.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.model.lead import Lead
from stoker.store.reading import load

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "lead_loops.py"
SECONDS = "7"


def lead_of(folder: Path, kind: str) -> Lead:
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    script = [sys.executable, str(SCRIPT), kind, SECONDS]
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "run", "--quiet", "--", *script],
        capture_output=True, text=True, cwd=folder, timeout=300,
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


@pytest.mark.alone
def test_a_plain_function_is_idle_for_what_the_queue_does_not_cover(tmp_path: Path) -> None:
    lead = lead_of(tmp_path, "function")
    assert lead.by == "events"
    assert idle_frac(lead, "other") > 0.5


@pytest.mark.parametrize("kind", ["graph", "streams"])
def test_nothing_breaks_beside(kind: str, tmp_path: Path) -> None:
    lead = lead_of(tmp_path, kind)
    assert lead.ticks >= 2
