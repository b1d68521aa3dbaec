"""Faults of the training thread: Python, collector, checkpoints, evaluation, compiling; and of one rank."""

from __future__ import annotations

import gc
import io
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import torch
from lab import BATCH, SHARE, TICK_S, WIDTH, Job, Learner, burn, learning, repeats, simple
from torch.utils.data import DataLoader


def hot_line(job: Job) -> None:
    simple(job, lambda _: burn(job.cost_s))  # planted hot_line


def lists(job: Job) -> None:
    """A list of lists of numbers made into a tensor at each step."""
    some = np.random.rand(8, WIDTH).tolist()
    count = (1, 40, 80, 160)[job.dose]
    if job.cuda:
        count = 8 * repeats(lambda: torch.tensor(some), job.planned_s)
    rows = np.random.rand(count, WIDTH)
    values = rows.tolist()
    simple(job, lambda _: torch.from_numpy(rows) if job.fixed else torch.tensor(values))  # planted lists


def collector(job: Job) -> None:
    simple(job, collecting(job))


def collecting(job: Job, every: int = 1) -> Callable[..., int]:
    alive = [[index] for index in range((0, 150_000, 300_000, 600_000)[job.dose])]
    sick = job.dose and not job.fixed
    return lambda step=0, *_: gc.collect() if sick and step % every == 0 else len(alive)  # planted collector


def saving(job: Job) -> None:
    simple(job, saver(job))


def saver(job: Job) -> Callable[..., None]:
    """Beside a GPU that has work for long, only a larger checkpoint costs anything."""
    rows = (1, 1000, 2000, 3000) if job.cuda else (1, 250, 500, 1000)
    state = {"weights": torch.ones(rows[job.dose], 100_000)}
    often = 10_000 if job.fixed or not job.dose else 10

    def between(step: int, *_: object) -> None:
        if step % often == 0:
            torch.save(state, io.BytesIO())  # planted saving

    return between


def evaluating(job: Job) -> None:
    learner, x = learning(job)
    batches = (0, 40, 80, 160)[job.dose]
    test = DataLoader(torch.randn(max(1, batches), BATCH, WIDTH), batch_size=None)

    def evaluate() -> float:
        learner.model.eval()
        total = torch.zeros((), device=job.device)
        with torch.no_grad():
            for rows in test:
                total += learner.model(job.moved(rows)).mean()  # planted evaluating
        learner.model.train()
        return total.item()

    while job.going_on():
        learner.step(x)
        job.ticked()
        if batches and job.ticks % (2000 if job.fixed else 25) == 0:
            job.injecting(evaluate)


def recompiling(job: Job) -> None:
    torch._dynamo.config.cache_size_limit = 100_000
    torch._dynamo.config.accumulated_cache_size_limit = 100_000
    learner, x = Learner(device=job.device), torch.randn(2 * BATCH, WIDTH, device=job.device)
    known: set[int] = set()
    call = torch.compile(learner.model, backend="eager", dynamic=False)
    every = (10**9, 6, 3, 1)[job.dose]
    rows = BATCH
    while job.going_on():
        if job.ticks % every == every - 1 and not job.fixed and rows < 2 * BATCH:
            rows += 1
        if rows in known:
            learner.step(x[:rows], call)
        else:  # the tick itself is counted in
            known.add(rows)
            job.injecting(lambda rows=rows: learner.step(x[:rows], call))  # planted recompiling
        job.ticked()
        if rows == 2 * BATCH:
            rows = BATCH + 1
            known.clear()
            torch._dynamo.reset()


def straggler(job: Job) -> None:
    """Two ranks; rank 1 sleeps before each step. On CPUs: two ranks on one GPU would share it."""
    if "RANK" in os.environ:
        _rank(job)
        return
    settings = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randint(20_000, 50_000))}
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv], env={**os.environ, **settings, "RANK": str(n), "WORLD_SIZE": "2"}
        )
        for n in range(2)
    ]
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise SystemExit(1)


def _rank(job: Job) -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    learner, x = Learner(), torch.randn(BATCH, WIDTH)
    call = DistributedDataParallel(learner.model)
    for _ in range(int(job.seconds / (TICK_S * (3 + SHARE[job.dose])))):
        if rank and job.cost_s:
            job.injecting(lambda: time.sleep(2 * job.cost_s))  # planted straggler
        learner.step(x, call)
        job.ticked()
    dist.destroy_process_group()
    time.sleep(0.3)  # a gloo thread that ends with Python would abort the rank (torch 2.13)


NEIGHBOUR = "import os\nos.nice({nice})\nwhile os.path.exists('/proc/{pid}'): sum(range(10_000))"
"""Started by a shell that ends at once, with nothing in its environment: no part of the run. It ends with
that."""


def neighbours(job: Job) -> None:
    """Other programs on the one core this training may use."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for nice in ((), (4,), (0,), (0, 0))[0 if job.fixed else job.dose]:
        code = NEIGHBOUR.format(nice=nice, pid=os.getpid())
        subprocess.run(["sh", "-c", 'env -i "$@" &', "sh", sys.executable, "-ISc", code], check=True)
    _off_core(job)


BUSY = (0.0, 0.4, 0.7, 1.0)
BURST_S = 0.01


def thread(job: Job) -> None:
    """A thread beside the training that computes in Python, and so holds the interpreter."""
    busy_s = 0.0 if job.fixed else BURST_S * BUSY[job.dose]

    def compute() -> None:
        while True:
            end_s = time.perf_counter() + busy_s
            while time.perf_counter() < end_s:  # planted thread
                sum(range(50))  # planted thread
            time.sleep(BURST_S - busy_s)

    if busy_s:
        threading.Thread(target=compute, daemon=True).start()
    _off_core(job)


def _off_core(job: Job) -> None:
    """A training that never waits for anything by itself: what is planted costs its time off the core."""
    off_core_s: list[float] = []  # asked twice only: to ask is a moment at which others get the core
    simple(job, lambda _: off_core_s or off_core_s.append(time.perf_counter() - time.thread_time()))
    job.injected_s = time.perf_counter() - time.thread_time() - off_core_s[0]
