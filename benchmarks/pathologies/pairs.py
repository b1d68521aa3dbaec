"""Two faults at once: both are to be named."""

from __future__ import annotations

from faults_gpu import norms
from faults_host import collecting, saver
from faults_input import Collate, Samples, loader, read
from faults_rl import serial_env
from lab import Job, burn


def loading_and_python(job: Job) -> None:
    """The training thread loads by itself, and computes something between ticks."""
    read(
        job,
        loader(job, Samples(100_000, busy_s=job.cost_s)),
        lambda *_: burn(job.cost_s),  # planted loading_and_python
    )


def env_and_collector(job: Job) -> None:
    serial_env(job, collecting(job))


def storage_and_saving(job: Job) -> None:
    cost_s = 0.0 if job.fixed else (0.0, 2.0, 3.0, 5.0)[job.dose] * job.tick_s
    read(job, loader(job, Samples(100_000, sleep_s=cost_s), num_workers=1), saver(job))


def collate_and_collector(job: Job) -> None:
    """A collection takes some ten ticks of a GPU: in each tick it would hide any loader."""
    cost_s = 0.0 if job.fixed else (0.0, 2.0, 3.0, 5.0)[job.dose] * job.tick_s
    data = loader(job, Samples(100_000), num_workers=1, collate_fn=Collate(cost_s))
    read(job, data, collecting(job, every=10 if job.cuda else 1))


def loading_and_reads(job: Job) -> None:
    """Too few workers, and one read from the GPU after another."""
    cost_s = 0.0 if job.fixed else (0.0, 2.0, 3.0, 5.0)[job.dose] * job.tick_s
    reads = (0, 100, 200, 400)[job.dose]
    data = loader(job, Samples(100_000, busy_s=cost_s), num_workers=1)
    read(job, data, lambda _, learner: norms(job, learner, reads))
