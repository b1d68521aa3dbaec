"""A small training with a known cost put into one place of it, which it times itself.

    python benchmarks/accuracy/job.py --where data --kind sleep --share 0.3 --seconds 12 --truth FILE

The model's own work is measured as it goes, and the cost set so that it makes up the given share of a tick.
`--truth` gets one line per tick, taken when the optimizer has stepped: the clock, the seconds put in so far
by each of the three kinds, and the seconds waited for the loader so far, all by this script's own
`perf_counter`.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

ROWS, WIDTH = 256, 512


class Injection:
    """The cost: how long it is to be, how much of it was really spent."""

    def __init__(self, kind: str, share: float, times: int) -> None:
        self.kind = kind
        self.ratio = share / (1.0 - times * share)
        self.spent_s = dict.fromkeys(KINDS, 0.0)
        self.wanted_s = multiprocessing.Value("d", 0.0)  # a loader's worker reads it, too

    def __call__(self, kind: str | None = None, at_most_s: float = math.inf) -> None:
        kind = kind or self.kind
        start = perf_counter()
        KINDS[kind](min(at_most_s, self.wanted_s.value))
        self.spent_s[kind] += perf_counter() - start

    def in_pieces(self, kinds: Sequence[str]) -> None:
        """By turns, as short as they are in a loop over small tensors."""
        for _ in range(round(self.wanted_s.value / PIECE_S)):
            for kind in kinds:
                self(kind, PIECE_S)

    def follow(self, work_s: float) -> None:
        self.wanted_s.value += 0.05 * (self.ratio * work_s - self.wanted_s.value)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def count_up(seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end: pass  # noqa: E701  # fmt: skip


def heavy_tensors(seconds: float) -> None:
    end, square = perf_counter() + seconds, torch.ones(64, 64)
    while perf_counter() < end: square.matmul(square)  # noqa: E701  # fmt: skip


KINDS = {"sleep": pause, "busy": count_up, "tensors": heavy_tensors}
BESIDE = {"three": tuple(KINDS), "pieces": ("busy", "tensors")}
"""A share of each of these kinds in one phase."""
PIECE_S = 0.0002


class Rows(IterableDataset):
    """Batches, ready made; the cost is in making them."""

    def __init__(self, inject: Injection | None) -> None:
        self.inject = inject
        self.batch = torch.randn(ROWS, WIDTH)

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            if self.inject is not None:
                self.inject()
            yield self.batch


class Simulator(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, inject: Injection) -> None:
        self.inject = inject
        self.observation = np.zeros(2, dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        return self.observation, {}

    def step(self, action):
        self.inject()
        return self.observation, 0.0, False, False, {}


class Training:
    def __init__(self, args: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.args = args
        self.inject = Injection(args.kind, args.share, times=len(BESIDE.get(args.where, "1")))
        self.model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.truth: list[tuple[float, ...]] = []
        self.waited_s = self.loss_s = 0.0
        self.env = Simulator(self.inject) if args.where == "env" else None

    def loader(self) -> DataLoader:
        workers = 1 if self.args.where == "worker" else 0
        inject = self.inject if self.args.where in ("data", "worker") else None
        return DataLoader(Rows(inject), batch_size=None, num_workers=workers)

    def run(self) -> None:
        end = perf_counter() + self.args.seconds
        batches = iter(self.loader())
        while perf_counter() < end:
            self.tick(batches)

    def tick(self, batches: Iterator[torch.Tensor]) -> None:
        start, before_s = perf_counter(), self.injected_s()
        batch = next(batches)
        if self.args.where == "worker":
            self.waited_s += perf_counter() - start
        if self.env is not None:
            self.env.step(0)
        found = self.model(batch)
        began = perf_counter()
        loss = found.square().mean()
        if self.args.where == "before_backward":
            self.inject()
        self.optimizer.zero_grad()
        self.loss_s += perf_counter() - began
        loss.backward()
        self.optimizer.step()
        now = perf_counter()
        self.truth.append((now, *self.inject.spent_s.values(), self.waited_s, self.loss_s))
        work_s = now - start - (self.injected_s() - before_s)
        self.inject.follow(work_s if self.args.where != "worker" else work_s * (1 + 1 / self.inject.ratio))
        if self.args.where == "after_step":
            self.inject()
        elif self.args.where == "three":  # looks must fall on all alike
            for kind in BESIDE["three"]:
                self.inject(kind)
        elif self.args.where == "pieces":
            self.inject.in_pieces(BESIDE["pieces"])

    def injected_s(self) -> float:
        return sum(self.inject.spent_s.values()) + self.waited_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    places = ("data", "worker", "env", "after_step", "before_backward", *BESIDE)
    parser.add_argument("--where", choices=places, required=True)
    parser.add_argument("--kind", choices=("sleep", "busy"), default="sleep")
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--truth", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    training = Training(args)
    training.run()
    rows = ["\t".join(f"{value:.6f}" for value in row) for row in training.truth]
    args.truth.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
