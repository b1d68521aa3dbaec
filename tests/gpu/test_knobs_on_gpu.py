"""Runtime knobs on a real GPU: in effect as the script itself finds it, and exact where they say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "knobbed.py"
COMPILED = ROOT / "tests" / "scripts" / "compiled_models.py"


@dataclass(frozen=True)
class Done:
    told: dict[str, Any]
    settings: dict[str, dict[str, Any]]
    notes: list[str]

    def in_effect(self, *names: str) -> bool:
        return all(self.settings[name]["live"] for name in names)


class Trainings:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self.env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.env |= {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "STOKER_HOME": str(folder / "home")}
        self.plain: dict[str, dict[str, Any]] = {}

    def _out(self, words: list[str]) -> str:
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=self.folder, env=self.env, timeout=240
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def bare(self, kind: str) -> dict[str, Any]:
        if kind not in self.plain:
            self.plain[kind] = json.loads(self._out([sys.executable, str(SCRIPT), kind]))
        return self.plain[kind]

    def __call__(self, kind: str, knobs: str, script: Path = SCRIPT, *args: str) -> Done:
        stoker = [sys.executable, "-m", "stoker"]
        command = [sys.executable, str(script), kind, *args]
        out = self._out([*stoker, "run", "--quiet", "--with", knobs, "--", *command])
        found = json.loads(self._out([*stoker, "why", "--json"]))
        settings = {one["name"]: one for one in found["settings"]}
        return Done(json.loads(out), settings, found["notes"])


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    return Trainings(tmp_path_factory.mktemp("knobs"))


def test_exact_knobs_leave_every_loss(train: Trainings) -> None:
    """Against a run of the same script, as deterministic as torch allows."""
    before = train.bare("deterministic")
    done = train(
        "deterministic", "num_workers=2,prefetch_factor=4,persistent_workers,pin_memory,non_blocking"
    )
    assert done.in_effect(*done.settings), done.settings
    assert done.told["pinned"] == [True]
    assert before["pinned"] == [False]
    assert (done.told["order"], done.told["losses"]) == (before["order"], before["losses"])


def test_non_blocking_needs_a_pinned_batch(train: Trainings) -> None:
    done = train("plain", "non_blocking")
    assert done.settings["non_blocking"]["live"] is False
    assert "pin" in done.settings["non_blocking"]["reason"]


def test_settings_of_the_process_and_the_optimizer(train: Trainings) -> None:
    before = train.bare("plain")
    assert (before["precision"], before["benchmark"], before["fused"]) == ("highest", False, None)
    done = train("plain", "tf32,cudnn_benchmark,fused,channels_last,allocator")
    assert done.in_effect(*done.settings), done.settings
    assert (done.told["precision"], done.told["benchmark"], done.told["fused"]) == ("high", True, True)
    assert done.told["channels_last"] is True
    assert done.told["keys"] == before["keys"]
    assert done.told["order"] == before["order"]
    assert float.fromhex(done.told["losses"][0]) == pytest.approx(
        float.fromhex(before["losses"][0]), rel=0.02
    )


def test_what_the_script_sets_itself(train: Trainings) -> None:
    done = train("sets_all", "tf32,cudnn_benchmark,fused,pin_memory,non_blocking")
    assert done.in_effect(*done.settings), done.settings
    assert all("already set by the script" in one["seen"] for one in done.settings.values()), done.settings


def test_a_deterministic_script_keeps_cudnn_as_it_is(train: Trainings) -> None:
    done = train("deterministic", "cudnn_benchmark")
    assert done.settings["cudnn_benchmark"]["live"] is False
    assert "deterministic" in done.settings["cudnn_benchmark"]["reason"]
    assert done.told["losses"] == train.bare("deterministic")["losses"]


@pytest.mark.parametrize("knobs", ["bf16", "compile", "bf16,compile,channels_last,pin_memory,non_blocking"])
def test_numeric_knobs_train_the_same_thing(train: Trainings, knobs: str) -> None:
    before, done = train.bare("plain"), train("plain", knobs)
    assert done.in_effect(*done.settings), done.settings
    assert done.told["types"] == ["torch.float32"]
    assert done.told["keys"] == before["keys"]
    assert done.told["order"] == before["order"]
    ends = [float.fromhex(told["losses"][-1]) for told in (before, done.told)]
    assert ends[1] == pytest.approx(ends[0], rel=0.1)
    assert not [note for note in done.notes if "hook" in note], done.notes


@pytest.mark.parametrize(("kind", "live"), [("sequential", True), ("nothing", False)])
def test_compile_says_whether_anything_was_compiled(train: Trainings, kind: str, live: bool) -> None:
    """A Sequential is torch's own code, which `Module.compile` passes over without a word."""
    found = train(kind, "compile", COMPILED, "cuda").settings["compile"]
    assert found["live"] is live, found
    assert found["reason"].startswith("" if live else "compile failed, ran eager"), found


def test_nccl_without_a_process_group(train: Trainings) -> None:
    done = train("plain", "nccl")
    assert done.settings["nccl"]["live"] is False
    assert "process group" in done.settings["nccl"]["reason"]
