"""Faults of the loader. The injected cost is the wait of the training thread, as the script times it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import torch
from lab import BATCH, SHARE, TICK_S, WIDTH, Job, Learner, burn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[torch.Tensor]):
    def __init__(self, batches: int, busy_s: float = 0.0, sleep_s: float = 0.0) -> None:
        self.rows, self.length = torch.randn(256, WIDTH), batches * BATCH
        self.busy_s, self.sleep_s = busy_s / BATCH, sleep_s / BATCH

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.busy_s:
            burn(self.busy_s)
        if self.sleep_s:
            time.sleep(self.sleep_s)
        return self.rows[index % 256]


def read(job: Job, loader: DataLoader[torch.Tensor]) -> None:
    """The injected cost is the wait, which the script times itself."""
    learner = Learner()
    while job.going_on():
        batches: Iterator[torch.Tensor] = job.injecting(lambda: iter(loader))
        while (
            x := job.injecting(lambda batches=batches: next(batches, None))
        ) is not None and job.going_on():
            learner.step(x)
            job.ticked()


def main_loading(job: Job) -> None:
    cost_s = SHARE[job.dose] * TICK_S
    data = Samples(100_000, busy_s=cost_s)
    workers = {"num_workers": 2, "persistent_workers": True} if job.fixed else {}
    read(job, DataLoader(data, batch_size=BATCH, **workers))  # type: ignore[arg-type]


def few_workers(job: Job) -> None:
    cost_s = (0.0, 2.0, 3.0, 5.0)[job.dose] * TICK_S
    data = Samples(100_000, busy_s=cost_s)
    read(job, DataLoader(data, batch_size=BATCH, num_workers=4 if job.fixed or not job.dose else 1))


def no_cores(job: Job) -> None:
    cost_s = 0.0 if job.fixed else (0.0, 8.0, 12.0, 20.0)[job.dose] * TICK_S
    workers = 2 * (os.cpu_count() or 2) if job.dose else 1
    read(job, DataLoader(Samples(100_000, busy_s=cost_s), batch_size=BATCH, num_workers=workers))


def storage(job: Job) -> None:
    cost_s = (0.0, 2.0, 3.0, 5.0)[job.dose] * TICK_S
    data = Samples(100_000, sleep_s=cost_s)
    read(job, DataLoader(data, batch_size=BATCH, num_workers=8 if job.fixed else 1))


class Collate:
    def __init__(self, busy_s: float) -> None:
        self.busy_s = busy_s

    def __call__(self, samples: list[torch.Tensor]) -> torch.Tensor:
        burn(self.busy_s)
        return torch.stack(samples)


def collate(job: Job) -> None:
    cost_s = 0.0 if job.fixed else (0.0, 2.0, 3.0, 5.0)[job.dose] * TICK_S
    data = Samples(100_000)
    read(job, DataLoader(data, batch_size=BATCH, num_workers=1, collate_fn=Collate(cost_s)))


def restart(job: Job) -> None:
    batches, keep = (60, 24, 12, 6)[job.dose], job.fixed or not job.dose
    read(job, DataLoader(Samples(batches), batch_size=BATCH, num_workers=1, persistent_workers=keep))
