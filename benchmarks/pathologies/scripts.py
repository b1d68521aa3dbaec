"""Small trainings with a planted fault, each with a dose; what `run.py` runs under Stoker.

    python benchmarks/pathologies/scripts.py hot_line --dose 2 [--fixed] [--seconds 5] [--out FILE]

Dose 0 is healthy, 1 to 3 cost ever more: about half, one and two times the model's own time of a tick where
that can be chosen. `--fixed` is the same dose with the fault mended as its page in docs/causes says. Each
counts the cost it injected by its own clock, and ticks per second from the tenth tick on.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

import gymnasium
import torch
from faults_host import collector, evaluating, hot_line, lists, recompiling, saving, straggler
from faults_input import Samples, collate, few_workers, main_loading, no_cores, read, restart, storage
from faults_rl import ToyOf, act, one_by_one, replay, serial_env
from lab import BATCH, TICK_S, WIDTH, Job, Learner, simple
from torch import nn
from torch.utils.data import DataLoader


def plain(job: Job) -> None:
    simple(job, lambda _: None)


def hidden_loader(job: Job) -> None:
    """A loader that has a little to do, in time."""
    data = Samples(100_000, busy_s=0.2 * TICK_S)
    read(job, DataLoader(data, batch_size=BATCH, num_workers=1, persistent_workers=True))


def on_policy(job: Job) -> None:
    """A rollout of a cheap vector environment, then many updates."""
    learner, x = Learner(WIDTH, 4), torch.randn(BATCH, WIDTH)
    vector = gymnasium.vector.SyncVectorEnv([ToyOf(0.0)] * 8)
    seen, _ = vector.reset()
    while job.going_on():
        for _ in range(4):
            seen = vector.step(act(learner, seen))[0]
        for _ in range(20):
            learner.step(x)
            job.ticked()


def convolution(job: Job) -> None:
    """Two batches to a step."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.LazyLinear(10)
    )
    x = torch.randn(16, 3, 24, 24)
    model(x)
    optimizer = torch.optim.Adam(model.parameters())
    while job.going_on():
        for _ in range(2):
            model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        job.ticked()


FAULTS: dict[str, tuple[Callable[[Job], None], str]] = {
    "main_loading": (main_loading, "SK101"),
    "few_workers": (few_workers, "SK102"),
    "no_cores": (no_cores, "SK103"),
    "storage": (storage, "SK104"),
    "collate": (collate, "SK105"),
    "restart": (restart, "SK106"),
    "hot_line": (hot_line, "SK201"),
    "lists": (lists, "SK201"),
    "replay": (replay, "SK201"),
    "collector": (collector, "SK202"),
    "saving": (saving, "SK203"),
    "evaluating": (evaluating, "SK204"),
    "recompiling": (recompiling, "SK205"),
    "serial_env": (serial_env, "SK301"),
    "one_by_one": (one_by_one, "SK302"),
    "straggler": (straggler, "SK503"),
}
"""Each with the cause that should be named."""
CONTROLS: dict[str, Callable[[Job], None]] = {
    "plain": plain,
    "hidden_loader": hidden_loader,
    "on_policy": on_policy,
    "convolution": convolution,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=[*FAULTS, *CONTROLS])
    parser.add_argument("--dose", type=int, default=0, choices=range(4))
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    job = Job(args.dose, args.fixed, args.seconds)
    script = FAULTS[args.name][0] if args.name in FAULTS else CONTROLS[args.name]
    script(job)
    if args.out and (job.ticks and os.environ.get("RANK", "1") == "1"):
        args.out.write_text(json.dumps(job.result()))


if __name__ == "__main__":
    main()
