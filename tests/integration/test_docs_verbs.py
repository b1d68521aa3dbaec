"""Every command on the pages of the verbs runs as it is written there, with a training of the stub torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("run", "why", "explain", "knobs", "runs", "doctor")
TRAINING = """
import sys, time, torch
model, optimizer = torch.nn.Linear(), torch.optim.SGD()
for _ in range(int(sys.argv[2])):
    torch.autograd.backward(model([1]))
    optimizer.step()
    time.sleep(0.001)
"""


def commands(page: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a training, and a command called `stoker` that is this one."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "train.py").write_text(TRAINING)
    (folder / "bin").mkdir()
    (folder / "bin" / "stoker").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stoker "$@"\n')
    (folder / "bin" / "stoker").chmod(0o755)
    return folder


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("STOKER")}
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    python_path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "stubs")])
    return subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=folder,
        env={**base, "PATH": path, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES)
def test_commands_run_as_written(page: str, folder: Path) -> None:
    in_shell("stoker run --quiet -- python train.py --steps 30", folder)
    lines = commands(page)
    assert lines
    for line in lines:
        done = in_shell(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert "error:" not in done.stderr
        if "--json" in line:
            shown = done.stderr if line.startswith("stoker run ") else done.stdout
            assert json.loads(shown)["schema"].startswith("stoker.")


def test_comparisons_are_planned_as_written(folder: Path) -> None:
    """Each command of the page of `ab`, with --dry-run: run, they would take minutes."""
    text = (ROOT / "docs" / "ab.md").read_text("utf-8")
    lines = [line[2:] for line in re.findall(r"^\$ stoker ab .*$", text, re.MULTILINE)]
    lines = [line for line in lines if "--resume" not in line]
    assert len(lines) >= 8
    for name in ("old.yaml", "new.yaml"):
        (folder / name).write_text("batch: 32\n")
    for line in lines:
        done = in_shell(line.replace("stoker ab", "stoker ab --dry-run"), folder)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "a plan, nothing was run" in done.stdout


def test_every_key_of_a_row_is_documented(folder: Path) -> None:
    stubs = ROOT / "tests" / "stubs"
    done = in_shell(f"stoker run --quiet -- python '{stubs}/stub_training.py' 400 0 1", folder)
    assert done.returncode == 0, done.stderr
    documented = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "run-folder.md").read_text("utf-8"))) | {"k"}
    newest = max((folder / ".stoker" / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    rows = [json.loads(line) for file in newest.glob("inside/*-0.jsonl") for line in file.open()]
    assert {"header", "second", "mark", "optimizer", "loader", "worker", "end"} <= {row["k"] for row in rows}
    for row in rows:
        assert set(row) <= documented, f"not in docs/run-folder.md: {set(row) - documented} of {row['k']}"
