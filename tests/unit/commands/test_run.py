"""What `stoker run` reads off the command: the names of what runs as `__main__`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from stoker.commands import run
from stoker.commands.options import as_typed, named_steps
from stoker.commands.run import _deep
from stoker.errors import UsageError
from stoker.launch import injection
from stoker.outside.capabilities import Capability


@pytest.mark.parametrize(
    ("command", "name", "resolved"),
    [
        ("python train.py", "train:Sim.step", "__main__:Sim.step"),
        ("python jobs/train.py", "train:Sim.step", "__main__:Sim.step"),
        ("torchrun --nproc_per_node=2 train.py --lr 1", "train:Sim.step", "__main__:Sim.step"),
        ("python -m pkg.train --lr 1", "pkg.train:Sim.step", "__main__:Sim.step"),
        ("python -u -m pkg.train", "pkg.train:Sim.step", "__main__:Sim.step"),
        ("python -um pkg.train", "pkg.train:Sim.step", "__main__:Sim.step"),
        ("python -mpkg.train", "pkg.train:Sim.step", "__main__:Sim.step"),
        ("python -m pkg", "pkg.__main__:Sim.step", "__main__:Sim.step"),
        ("torchrun -m pkg.train", "pkg.train:Sim.step", "__main__:Sim.step"),
        ("torchrun --module pkg.train", "pkg.train:Sim.step", "__main__:Sim.step"),
        ("python -m torch.distributed.run train.py", "train:Sim.step", "__main__:Sim.step"),
        ("python -m pkg.train", "pkg.sim:Sim.step", "pkg.sim:Sim.step"),
        ("python -m pkg.train", "train:Sim.step", "train:Sim.step"),
        ("python train.py -m pkg.sim", "pkg.sim:Sim.step", "pkg.sim:Sim.step"),
        ("python -m", "pkg:Sim.step", "pkg:Sim.step"),
    ],
)
def test_names_in_the_script_itself(command: str, name: str, resolved: str) -> None:
    args = argparse.Namespace(env=[name], eval=[name], step=[name])
    assert named_steps(args, command.split()) == [f"{kind}={resolved}" for kind in ("env", "eval", "step")]
    assert as_typed(args) == [f"--{kind}={name}" for kind in ("env", "eval", "step")]


GPM, NO_GPM = Capability("GPU 0 real work (GPM)", True), Capability("GPU 1 real work (GPM)", False)


@pytest.mark.parametrize(
    ("flag", "found", "mode"),
    [
        (True, [GPM], "asked"),
        (True, [], "asked"),
        (False, [NO_GPM], None),
        (None, [NO_GPM], "auto"),
        (None, [GPM, NO_GPM], "auto"),
        (None, [GPM], "late"),
        (None, [Capability("NVML", False)], None),
    ],
)
def test_when_a_deep_window_is_taken(flag, found, mode, monkeypatch) -> None:
    monkeypatch.setattr(run, "gpu_capabilities", lambda: found)
    assert _deep(flag) == mode


def test_the_training_is_told(tmp_path: Path) -> None:
    around = {"STOKER_DEEP": "asked"}  # a Stoker within a Stoker
    assert "STOKER_DEEP" not in injection.environment(around, tmp_path, "id", [], None)
    assert injection.environment({}, tmp_path, "id", [], "auto")["STOKER_DEEP"] == "auto"


def test_deep_needs_the_inside() -> None:
    parser = argparse.ArgumentParser()
    run.declare(parser)
    with pytest.raises(UsageError, match="--pid"):
        run.run(parser.parse_args(["--pid", "1", "--deep"]))
