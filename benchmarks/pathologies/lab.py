"""What the planted faults share: a job with its own clock, a small model, and its step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import nn

WIDTH, BATCH = 384, 128
TICK_S = 0.012
"""About what the model takes for a tick on one core."""
SHARE = (0.0, 0.5, 1.0, 2.0)
"""Injected, in ticks."""
SKIPPED = 10


@dataclass
class Job:
    """One run: its settings, and what it counted."""

    dose: int
    fixed: bool
    seconds: float
    injected_s: float = 0.0
    ticks: int = 0
    began_s: float = field(default_factory=time.perf_counter)
    first_s: float | None = None

    @property
    def cost_s(self) -> float:
        """For a tick, at this dose; nothing where it is mended."""
        return 0.0 if self.fixed else SHARE[self.dose] * TICK_S

    def going_on(self) -> bool:
        """Its time begins with the first question: what a script sets up before is not counted."""
        if not self.ticks:
            self.began_s = time.perf_counter()
        return time.perf_counter() - self.began_s < self.seconds

    def ticked(self) -> None:
        self.ticks += 1
        if self.ticks == SKIPPED:
            self.first_s = time.perf_counter()

    def injecting(self, work: Callable[[], Any]) -> Any:
        start_s = time.perf_counter()
        result = work()
        self.injected_s += time.perf_counter() - start_s
        return result

    def result(self) -> dict[str, Any]:
        spent_s = time.perf_counter() - (self.first_s or self.began_s)
        return {
            "ticks": self.ticks,
            "ticks_per_s": max(0, self.ticks - SKIPPED) / spent_s,
            "injected_s": self.injected_s,
            "injected_frac": self.injected_s / (time.perf_counter() - self.began_s),
        }


def burn(seconds: float) -> int:
    """Pure Python, on a core."""
    count, end_s = 0, time.thread_time() + seconds
    while time.thread_time() < end_s:
        count += sum(range(50))
    return count


class Net(nn.Module):
    def __init__(self, inputs: int = WIDTH, outputs: int = WIDTH) -> None:
        super().__init__()
        sizes = [inputs, WIDTH, WIDTH, WIDTH, outputs]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.Sequential(*[piece for layer in layers for piece in (layer, nn.ReLU())][:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


class Learner:
    def __init__(self, inputs: int = WIDTH, outputs: int = WIDTH) -> None:
        self.model = Net(inputs, outputs)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def step(self, x: torch.Tensor, call: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        loss = (self.model if call is None else call)(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def simple(job: Job, between: Callable[[int], Any]) -> None:
    """Data in memory, and something between two ticks."""
    learner, x = Learner(), torch.randn(BATCH, WIDTH)
    while job.going_on():
        learner.step(x)
        job.ticked()
        job.injecting(lambda: between(job.ticks))
