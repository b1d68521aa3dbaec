"""What `stoker run` reads off the command: the names of what runs as `__main__`."""

from __future__ import annotations

import argparse

import pytest

from stoker.commands.run import _names


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
    args = argparse.Namespace(env=[name], eval=[name])
    assert _names(args, command.split()) == [f"env={resolved}", f"eval={resolved}"]
