"""Faults of the GPU's own: what it waits for, what it is given, and its memory. They need a GPU.

Sizes are chosen for a large card (H200); what takes time on the host is measured first.
"""

from __future__ import annotations

import torch
from lab import BATCH, WIDTH, GpuNet, Job, Learner, captured, learning, repeats, simple
from torch import nn

MIB = 2**20


def sync_storm(job: Job) -> None:
    """The norm of one piece of the gradients after another is read."""
    reads = (0, 100, 200, 400)[job.dose]
    learner, x = learning(job)
    while job.going_on():
        learner.step(x)
        job.ticked()
        job.injecting(lambda: norms(job, learner, reads))


def norms(job: Job, learner: Learner, reads: int) -> float:
    weights = [one for one in learner.model.parameters() if one.grad is not None]
    if job.fixed:  # kept on the GPU
        torch.stack(torch._foreach_norm([one.grad for one in weights]))
        return 0.0
    total = 0.0
    for number in range(reads):
        total += weights[number % len(weights)].grad.view(-1)[:64].norm().item()  # planted sync_storm
    return total


def implicit_sync(job: Job) -> None:
    """A question to a tensor in Python, for each of many pieces."""
    pieces = (0, 100, 200, 400)[job.dose]
    learner, x = learning(job)
    parts = list(torch.randn(max(1, pieces), 256, device=job.device))

    def clipped() -> None:
        for part in parts[:pieces]:
            if job.fixed or (part > 1.0).any():  # planted implicit_sync
                part.clamp_(-1.0, 1.0)
            part.add_(0.5)

    while job.going_on():
        learner.step(x)
        job.ticked()
        job.injecting(clipped)


def launch_bound(job: Job) -> None:
    """A deep and narrow model; mended, the whole step is one CUDA graph."""
    if not job.dose:
        simple(job, lambda _: None)
        return
    layers = [piece for _ in range((0, 16, 32, 64)[job.dose]) for piece in (nn.Linear(128, 128), nn.ReLU())]
    model = nn.Sequential(*layers).to(job.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(64, 128, device=job.device)

    def step() -> None:
        loss = model(x).square().mean()  # planted launch_bound
        optimizer.zero_grad()
        loss.backward()  # planted launch_bound
        optimizer.step()  # planted launch_bound

    tick = captured(step) if job.fixed and job.cuda else step
    while job.going_on():
        tick()
        job.ticked()


class Scan(nn.Module):
    """A running sum over a long row: one multiprocessor does a row, so a small batch leaves most of them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale).cumsum(1).mean()


def small_batch(job: Job) -> None:
    if not job.dose:
        simple(job, lambda _: None)
        return
    rows = 264 if job.fixed else (0, 32, 16, 8)[job.dose]
    model = Scan().to(job.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.rand(rows, 1_000_000 if job.cuda else 10_000, device=job.device)
    job.units_per_tick = rows
    while job.going_on():
        loss = model(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        job.ticked()


def tensor_off(job: Job) -> None:
    """Plain FP32, which torch does by default."""
    if not job.cuda or not job.dose:
        simple(job, lambda _: None)
        return
    with torch.device("cuda"):
        model = GpuNet(WIDTH, WIDTH, tokens=(0, 8, 16, 32)[job.dose])
    model = model.to(torch.bfloat16 if job.fixed else torch.float32)
    learner, x = Learner(device="cpu"), torch.randn(BATCH, WIDTH, device="cuda")
    learner.model, learner.optimizer = model, torch.optim.SGD(model.parameters(), lr=1e-3)
    while job.going_on():
        learner.step(x)
        job.ticked()


def pageable(job: Job) -> None:
    """A large batch is copied from ordinary memory in each tick."""
    learner = Learner(device=job.device)
    some = torch.ones(8 * MIB)
    times = repeats(lambda: some.to(job.device), job.serial_s) if job.cuda and job.dose else 1
    host = torch.ones(times * 8 * MIB if job.dose else BATCH * WIDTH)
    host = host.pin_memory() if job.fixed and job.cuda else host

    def copied() -> torch.Tensor:
        return host.to(job.device, non_blocking=job.fixed)  # planted pageable

    while job.going_on():
        x = job.injecting(copied)
        learner.step(x[: BATCH * WIDTH].view(BATCH, WIDTH))
        job.ticked()


class Split(nn.Module):
    """Its last layers are on another device."""

    def __init__(self, first: nn.Module, last: nn.Module, device: str) -> None:
        super().__init__()
        self.first, self.last, self.device = first, last, device

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.first(x).float().to(self.device))  # planted cpu_part
        return out


def cpu_part(job: Job) -> None:
    layer, rows = nn.Linear(WIDTH, WIDTH), torch.randn(BATCH, WIDTH)
    count = repeats(lambda: layer(rows).sum().backward(), job.serial_s) if job.dose else 1
    device = job.device if job.fixed or not job.dose else "cpu"
    last = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(count)]).to(device)
    learner, x = learning(job)
    learner.model = Split(learner.model, last, device)
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), lr=1e-3)
    while job.going_on():
        learner.step(x)
        job.ticked()


class Chain(nn.Module):
    """Many small operations on a large tensor: each reads and writes all of it."""

    def __init__(self, rows: int, ops: int) -> None:
        super().__init__()
        self.weights, self.ops = nn.Parameter(torch.ones(rows, MIB)), ops

    def forward(self, fused: bool) -> torch.Tensor:
        y: torch.Tensor = self.weights
        if fused:
            return y.mul(0.999**self.ops).mean()
        for _ in range(self.ops):
            y = y * 0.999  # planted dram_chain
        return y.mean()


def dram_chain(job: Job) -> None:
    if not job.dose:
        simple(job, lambda _: None)
        return
    with torch.device(job.device):
        model = Chain(64 if job.cuda else 1, (0, 10, 20, 40)[job.dose])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    while job.going_on():
        loss = model(job.fixed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        job.ticked()


def thrash(job: Job) -> None:
    """The allocator's memory is given back to the driver in each tick."""
    learner, x = learning(job)
    every, times = ((1, 0), (2, 1), (1, 1), (1, 2))[job.dose]

    def emptied() -> None:
        if not job.fixed and job.ticks % every == 0:
            torch.cuda.empty_cache()  # planted thrash

    while job.going_on():
        for _ in range(max(1, times)):
            learner.model(x).square().mean().backward()
            if times:
                job.injecting(emptied)
        learner.optimizer.step()
        learner.optimizer.zero_grad()
        job.ticked()


def leak(job: Job) -> None:
    """Something of every tick is kept."""
    kept: list[torch.Tensor] = []
    size = 0 if job.fixed else (0, 4, 8, 16)[job.dose] * MIB

    def keep(_: int) -> None:
        if size:
            kept.append(torch.zeros(size // 4, device=job.device))  # planted leak

    simple(job, keep)
