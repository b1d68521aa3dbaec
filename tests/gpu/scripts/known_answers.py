"""Four loops whose idle time on the GPU is known: `known_answers.py env|hidden|small|gpu_env SECONDS`.

env      10 ms in a simulator on the CPU, then an update whose loss is read: all of the 10 ms idle
hidden   30 ms of waiting for data while the GPU has 70 ms of work in its queue: none of it idle
small    24 layers of width 64, nothing else: idle between one kernel and the next
gpu_env  a simulator that computes on the GPU: not idle
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from turn import take_turn

WIDTH = 4096


class Waiting(IterableDataset):
    def __init__(self, batch: torch.Tensor, seconds: float) -> None:
        self.batch, self.seconds = batch, seconds

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            time.sleep(self.seconds)
            yield self.batch


class Simulator:
    """On the CPU it sleeps, on the GPU it multiplies."""

    def __init__(self, state: torch.Tensor | None) -> None:
        self.state = state

    def step(self) -> None:
        if self.state is None:
            time.sleep(0.010)
            return
        for _ in range(12):
            self.state = torch.tanh(self.state @ self.state)


def model_of(layers: int, width: int) -> nn.Module:
    return nn.Sequential(
        *(part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU()))
    ).cuda()


def batch_for(model: nn.Module, seconds: float) -> torch.Tensor:
    """As many rows as make an update of that length."""
    batch = torch.randn(512, WIDTH, device="cuda")
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            model(batch).square().mean().backward()
        torch.cuda.synchronize()
        rows = len(batch) * seconds / ((time.perf_counter() - start) / 10)
        batch = torch.randn(max(64, round(rows / 64) * 64), WIDTH, device="cuda")
    return batch


def update(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> torch.Tensor:
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main(kind: str, seconds: float) -> None:
    take_turn()
    torch.manual_seed(0)
    small = kind == "small"
    model = model_of(24, 64) if small else model_of(4, WIDTH)
    work_s = 0.070 if kind == "hidden" else 0.009
    batch = torch.randn(64, 64, device="cuda") if small else batch_for(model, work_s)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    state = torch.randn(WIDTH, WIDTH, device="cuda") / WIDTH if kind == "gpu_env" else None
    simulator = Simulator(state)
    batches = iter(DataLoader(Waiting(batch, 0.030), batch_size=None))
    before: torch.cuda.Event | None = None
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        if kind in ("env", "gpu_env"):
            simulator.step()
        loss = update(model, optimizer, next(batches) if kind == "hidden" else batch)
        if kind in ("env", "gpu_env"):
            loss.item()
        elif kind == "hidden":  # one update ahead, never more
            done = torch.cuda.Event()
            done.record()
            if before is not None:
                before.synchronize()
            before = done


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
