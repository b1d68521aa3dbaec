"""Who else is on the card. (Not in `faults_gpu.py`: recordings know the planted lines there by number.)"""

from __future__ import annotations

import time

import torch
from lab import Job, simple
from neighbour import neighbour

SHARE_OF_TIME = (0.0, 0.3, 0.6, 1.0)
"""In which the neighbour would compute if the card were its own."""


def card_neighbour(job: Job) -> None:
    """Another program computes on the same card. What it costs is the time beyond that of the ticks alone."""
    share = 0.0 if job.fixed else SHARE_OF_TIME[job.dose]
    if not share:
        simple(job, lambda _: None)
        return
    alone_s = job.tick_s
    with neighbour(share, job.device):
        simple(job, lambda _: None)
        if job.cuda:
            torch.cuda.synchronize()
        ended_s = time.perf_counter()
        job.injected_s = max(0.0, ended_s - job.began_s - job.ticks * alone_s)
    not_counted(job, time.perf_counter() - ended_s)


def not_counted(job: Job, seconds: float) -> None:
    """After the training: until the neighbour was gone."""
    job.first_s = (job.first_s or job.began_s) + seconds
    job.began_s += seconds
