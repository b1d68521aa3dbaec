"""Faults of the loader. The injected cost is the wait of the training thread, as the script times it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from lab import BATCH, WIDTH, Job, Learner, burn, cores
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[torch.Tensor]):
    def __init__(self, batches: int, busy_s: float = 0.0, sleep_s: float = 0.0) -> None:
        self.rows, self.length = torch.randn(256, WIDTH), batches * BATCH
        self.busy_s, self.sleep_s = busy_s / BATCH, sleep_s / BATCH

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.busy_s:
            burn(self.busy_s)  # planted
        if self.sleep_s:
            time.sleep(self.sleep_s)  # planted
        return self.rows[index % 256]


def loader(job: Job, data: Samples, **settings: Any) -> DataLoader[torch.Tensor]:
    """Page-locked where there is a GPU, so that copies are no second fault."""
    return DataLoader(data, batch_size=BATCH, pin_memory=job.cuda, **settings)


def read(
    job: Job, batches: DataLoader[torch.Tensor], after: Callable[[int, Learner], Any] | None = None
) -> None:
    """The injected cost is the wait, which the script times itself; `after` comes between two ticks."""
    learner = Learner(device=job.device)
    while job.going_on():
        epoch: Iterator[torch.Tensor] = job.injecting(lambda: iter(batches))
        while (x := job.injecting(lambda epoch=epoch: next(epoch, None))) is not None and job.going_on():
            learner.step(job.moved(x))
            job.ticked()
            if after is not None:
                job.injecting(lambda: after(job.ticks, learner))


def main_loading(job: Job) -> None:
    workers = {"num_workers": 2, "persistent_workers": True} if job.fixed else {}
    workers = {**workers, **({"num_workers": 8} if job.cuda and job.fixed else {})}
    read(job, loader(job, Samples(100_000, busy_s=job.planned_s), **workers))


def few_workers(job: Job) -> None:
    cost_s = (0.0, 2.0, 3.0, 5.0)[job.dose] * job.tick_s
    workers = (8 if job.cuda else 4) if job.fixed or not job.dose else 1
    read(job, loader(job, Samples(100_000, busy_s=cost_s), num_workers=workers))


def no_cores(job: Job) -> None:
    """Each batch costs several ticks of all cores together."""
    ticks = (0.0, 2.0, 3.0, 5.0) if job.cuda else (0.0, 4.0, 6.0, 10.0)
    cost_s = 0.0 if job.fixed else ticks[job.dose] * cores() * job.tick_s
    workers = 2 * cores() if job.dose else 1
    read(job, loader(job, Samples(100_000, busy_s=cost_s), num_workers=workers))


def storage(job: Job) -> None:
    cost_s = (0.0, 2.0, 3.0, 5.0)[job.dose] * job.tick_s
    workers = (16 if job.cuda else 8) if job.fixed else 1
    read(job, loader(job, Samples(100_000, sleep_s=cost_s), num_workers=workers))


class Collate:
    def __init__(self, busy_s: float) -> None:
        self.busy_s = busy_s

    def __call__(self, samples: list[torch.Tensor]) -> torch.Tensor:
        burn(self.busy_s)  # planted
        return torch.stack(samples)


def collate(job: Job) -> None:
    cost_s = 0.0 if job.fixed else (0.0, 2.0, 3.0, 5.0)[job.dose] * job.tick_s
    read(job, loader(job, Samples(100_000), num_workers=1, collate_fn=Collate(cost_s)))


def restart(job: Job) -> None:
    """A GPU works on what it was given while few workers start: there, more of them and shorter epochs."""
    batches = ((60, 8, 5, 3) if job.cuda else (60, 24, 12, 6))[job.dose]
    keep, workers = job.fixed or not job.dose, 4 if job.cuda else 1
    read(job, loader(job, Samples(batches), num_workers=workers, persistent_workers=keep))
