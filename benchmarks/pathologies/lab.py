"""What the planted faults share: a job with its own clock, a model of a size that fits the device, its step.

A line that holds a fault carries a comment `# planted` (in whatever fault it is used) or `# planted NAME`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

WIDTH, BATCH = 384, 128
TICK_S = 0.012
"""About what the model takes for a tick on one core; on a GPU that is measured."""
SHARE = (0.0, 0.5, 1.0, 2.0)
"""Injected, in ticks, where the GPU waits meanwhile; on a CPU always."""
BESIDE = (0.0, 1.5, 2.2, 4.0)
"""Injected, in ticks, where the thread is ahead of the GPU: what is shorter than a tick costs nothing."""
SKIPPED = 10
TOKENS, GPU_WIDTH = 128, 4096


@dataclass
class Job:
    """One run: its settings, and what it counted."""

    dose: int
    fixed: bool
    seconds: float
    device: str = "cpu"
    units_per_tick: float = 1.0
    """Samples of a tick, where the fix changes them."""
    injected_s: float = 0.0
    ticks: int = 0
    began_s: float = field(default_factory=time.perf_counter)
    first_s: float | None = None
    measured_tick_s: float | None = None

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    @property
    def tick_s(self) -> float:
        if not self.cuda:
            return TICK_S
        if self.measured_tick_s is None:
            self.measured_tick_s = _gpu_tick_s()
        return self.measured_tick_s

    @property
    def cost_s(self) -> float:
        """For a tick, at this dose; nothing where it is mended."""
        return 0.0 if self.fixed else self.planned_s

    @property
    def planned_s(self) -> float:
        return (BESIDE if self.cuda else SHARE)[self.dose] * self.tick_s

    @property
    def serial_s(self) -> float:
        """In a loop that reads from the GPU in each tick anyway: nothing hides there."""
        return SHARE[self.dose] * self.tick_s

    def moved(self, x: torch.Tensor) -> torch.Tensor:
        return x.to("cuda", non_blocking=True) if self.cuda else x

    def going_on(self) -> bool:
        """Its time begins with the first question: what a script sets up before is not counted."""
        if not self.ticks:
            self.began_s = time.perf_counter()
        return time.perf_counter() - self.began_s < self.seconds

    def ticked(self) -> None:
        self.ticks += 1
        if self.ticks == SKIPPED:
            self._wait()
            self.first_s = time.perf_counter()

    def injecting(self, work: Callable[[], Any]) -> Any:
        start_s = time.perf_counter()
        result = work()
        self.injected_s += time.perf_counter() - start_s
        return result

    def result(self) -> dict[str, Any]:
        self._wait()
        now_s = time.perf_counter()
        rate = max(0, self.ticks - SKIPPED) / (now_s - (self.first_s or self.began_s))
        return {
            "ticks": self.ticks,
            "ticks_per_s": rate,
            "units_per_s": rate * self.units_per_tick,
            "injected_s": self.injected_s,
            "injected_frac": self.injected_s / (now_s - self.began_s),
        }

    def _wait(self) -> None:
        """Ticks are given to a GPU long before they are done."""
        if self.cuda:
            torch.cuda.synchronize()


def burn(seconds: float) -> int:
    """Pure Python, on a core."""
    count, end_s = 0, time.thread_time() + seconds
    while time.thread_time() < end_s:  # planted
        count += sum(range(50))  # planted
    return count


def repeats(work: Callable[[], Any], seconds: float) -> int:
    """How often it must be done to take so long."""
    work()
    start_s, count = time.perf_counter(), 0
    while time.perf_counter() - start_s < 0.02:
        work()
        count += 1
    return max(1, round(seconds * count / (time.perf_counter() - start_s)))


def cores() -> int:
    """Those this process may use: by its affinity, and by its control group."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(allowed, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return allowed


class Net(nn.Module):
    def __init__(self, inputs: int = WIDTH, outputs: int = WIDTH) -> None:
        super().__init__()
        sizes = [inputs, WIDTH, WIDTH, WIDTH, outputs]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.Sequential(*[piece for layer in layers for piece in (layer, nn.ReLU())][:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


class GpuNet(nn.Module):
    """Fills a large GPU for some 12 ms a tick (H200, bfloat16): each row becomes many tokens, so that a
    small batch, which a loader delivers in no time, is a lot of work."""

    def __init__(self, inputs: int, outputs: int, tokens: int = TOKENS) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, GPU_WIDTH)
        self.spread = nn.Parameter(0.02 * torch.randn(tokens, GPU_WIDTH))
        layers = [nn.Linear(GPU_WIDTH, GPU_WIDTH) for _ in range(4)]
        self.layers = nn.Sequential(*[piece for layer in layers for piece in (layer, nn.ReLU())])
        self.leave = nn.Linear(GPU_WIDTH, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        entered = self.enter(x.to(self.spread.dtype))
        out: torch.Tensor = self.leave(self.layers(entered[:, None] + self.spread).mean(1))
        return out


class Learner:
    def __init__(self, inputs: int = WIDTH, outputs: int = WIDTH, device: str = "cpu") -> None:
        if device == "cuda":
            with torch.device("cuda"):
                self.model: nn.Module = GpuNet(inputs, outputs).to(torch.bfloat16)
        else:
            self.model = Net(inputs, outputs)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def step(self, x: torch.Tensor, call: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        loss = (self.model if call is None else call)(x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def learning(job: Job, inputs: int = WIDTH, outputs: int = WIDTH) -> tuple[Learner, torch.Tensor]:
    """A learner, and a batch in the memory of its device."""
    return Learner(inputs, outputs, job.device), torch.randn(BATCH, inputs, device=job.device)


def simple(job: Job, between: Callable[[int], Any]) -> None:
    """Data in memory, and something between two ticks."""
    learner, x = learning(job)
    while job.going_on():
        learner.step(x)
        job.ticked()
        job.injecting(lambda: between(job.ticks))


def captured(step: Callable[[], Any]) -> Callable[[], None]:
    """The same as one CUDA graph. Its first times are on a side stream, as torch wants it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Callable[[], None] = graph.replay
    return replay


def _gpu_tick_s() -> float:
    """Without an optimizer: its steps would be taken for the training's. They take next to no time."""
    model = Learner(device="cuda").model
    x = torch.randn(BATCH, WIDTH, device="cuda")

    def tick() -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    for _ in range(5):
        tick()
    torch.cuda.synchronize()
    start_s = time.perf_counter()
    for _ in range(10):
        tick()
    torch.cuda.synchronize()
    return (time.perf_counter() - start_s) / 10
