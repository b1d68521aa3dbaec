"""Healthy trainings of different shape: nothing is to be said against them."""

from __future__ import annotations

import gymnasium
import torch
from faults_input import Samples, loader, read
from faults_rl import ToyOf, act
from lab import BATCH, WIDTH, Job, burn, captured, learning, simple
from torch import nn


def plain(job: Job) -> None:
    """Large matrix products in bfloat16 on a GPU; small ones on a CPU."""
    simple(job, lambda _: None)


def hidden_loader(job: Job) -> None:
    """A loader that has a little to do, in time."""
    data = Samples(100_000, busy_s=0.2 * job.tick_s)
    read(job, loader(job, data, num_workers=1, persistent_workers=True))


def hidden_host(job: Job) -> None:
    """Python has something to do between ticks, and the GPU has not: it is behind."""
    simple(job, lambda _: burn(0.5 * job.tick_s))


def on_policy(job: Job) -> None:
    """A rollout of a cheap vector environment, then many updates."""
    learner, x = learning(job, outputs=4)
    vector = gymnasium.vector.SyncVectorEnv([ToyOf(0.0)] * 8)
    seen, _ = vector.reset()
    while job.going_on():
        for _ in range(4):
            seen = vector.step(act(learner, seen, job.device))[0]
        for _ in range(20):
            learner.step(x)
            job.ticked()


def convolution(job: Job) -> None:
    """Two batches to a step."""
    width, size, rows = (256, 64, 16) if job.cuda else (16, 24, 16)
    layers = [nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), *_more(job, width), nn.Flatten()]
    side = 6 if job.cuda else size - 4
    model = nn.Sequential(*layers, nn.Linear(width * side * side, 10)).to(job.device)
    x = torch.randn(rows, 3, size, size, device=job.device)
    if job.cuda:
        model = model.to(torch.bfloat16, memory_format=torch.channels_last)
        x = x.to(torch.bfloat16, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters())
    while job.going_on():
        for _ in range(2):
            model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        job.ticked()


def _more(job: Job, width: int) -> list[nn.Module]:
    if not job.cuda:
        return []
    layers = [piece for _ in range(4) for piece in (nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))]
    return [*layers, nn.AvgPool2d(10)]


def transformer(job: Job) -> None:
    width, heads, length, rows = (2048, 16, 512, 16) if job.cuda else (64, 4, 32, 8)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4 if job.cuda else 2, enable_nested_tensor=False).to(job.device)
    x = torch.randn(rows, length, width, device=job.device)
    if job.cuda:
        model, x = model.to(torch.bfloat16), x.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    while job.going_on():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        job.ticked()


def graphed(job: Job) -> None:
    """Forward and backward are one CUDA graph; the optimizer steps by itself."""
    learner, x = learning(job)

    def both() -> None:
        learner.model.zero_grad(set_to_none=False)
        learner.model(x).square().mean().backward()

    learner.model(x).square().mean().backward()  # gradients exist before the capture
    tick = captured(both)
    while job.going_on():
        tick()
        learner.optimizer.step()
        job.ticked()


class Swarm:
    """Environments by the hundred thousand, on the GPU."""

    def __init__(self, count: int) -> None:
        self.state = torch.zeros(count, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step(self, actions: torch.Tensor) -> torch.Tensor:
        self.state = torch.tanh(0.9 * self.state + 0.1 * actions)
        return self.state


def gpu_env(job: Job) -> None:
    """A rollout on the GPU, and updates from it; nothing is read back."""
    model = nn.Sequential(nn.Linear(WIDTH, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU())
    model = model.append(nn.Linear(2048, WIDTH)).to("cuda", torch.bfloat16)
    optimizer, envs = torch.optim.SGD(model.parameters(), lr=1e-3), Swarm(512 * BATCH)
    while job.going_on():
        seen = []
        with torch.no_grad():
            for _ in range(4):
                seen.append(envs.step(model(envs.state)))
        for x in seen:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            job.ticked()
