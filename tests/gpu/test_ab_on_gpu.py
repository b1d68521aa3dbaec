"""`stoker ab` on a real GPU: trials behind the guard, and its figures beside the speed. Other tests start
meanwhile (together.py), so it insists on the card; that a card in use is refused: test_trials.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
SOURCE = Path(__file__).parents[2] / "src"
SCRIPTS = Path(__file__).parent / "scripts"
TRAIN = """
import sys, torch
from turn import take_turn
take_turn(0.002)
width = int(sys.argv[1])
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
torch.save(model.state_dict(), "model.pt")
while True:
    optimizer.zero_grad(); model(torch.randn(4096, width, device="cuda")).square().mean().backward()
    optimizer.step(); torch.cuda.synchronize()
"""


def test_a_larger_model_is_slower(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": f"{SOURCE}:{SCRIPTS}", "STOKER_HOME": str(tmp_path / "home")}
    own = [
        "--a",
        "width=256",
        "--b",
        "width=4096",
        "--window",
        "3s",
        "--pairs",
        "3",
        "--share",
        "--yes",
        "--json",
    ]
    argv = [sys.executable, "-m", "stoker", "ab", *own, "--", sys.executable, "train.py", "{width}"]
    done = subprocess.run(
        argv, cwd=project, env=env, capture_output=True, text=True, timeout=400, check=False
    )
    said = json.loads(done.stdout)
    assert said["verdict"] == "LOSS", done.stderr + said["sentence"]
    for one in said["trials"]:
        assert one["failure"] is None
        assert one["memory_peak_bytes"]
    assert [path.name for path in project.iterdir()] == ["train.py"]
