"""Two faults: a pool of processes breeds beetles while nothing else is done; and the run is saved too often.

Each takes three quarters of a dose. A perfect diagnosis names both: rollouts and updates that take turns (the
first marked line), and checkpoints every few steps (second). Fix: the next generation is bred meanwhile; no
checkpoint before the end.
"""

import math
import random
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, GENES, BORN = 0.75, 10, 16


def breed(seed, generations):
    """The fittest of each generation has children."""
    rng = random.Random(seed)
    parent = [rng.gauss(0, 1) for _ in range(GENES)]
    for _ in range(generations):
        child = [gene + 0.1 * rng.gauss(0, 1) for gene in parent]
        if sum(math.cos(gene) for gene in child) > sum(math.cos(gene) for gene in parent):
            parent = child
    return [[gene + 0.05 * rng.gauss(0, 1) for gene in parent] for _ in range(BORN)]


class Nursery:
    """Breeds in its own processes; what was asked for is had by `bred`."""

    def __init__(self, pool, size, generations=1):
        self.pool, self.size, self.generations, self.seed = pool, size, generations, 0

    def ask(self):
        self.seed += self.size
        return [self.pool.submit(breed, self.seed + n, self.generations) for n in range(self.size)]

    def bred(self, asked):
        return [beetle for future in asked for beetle in future.result()]  # planted


class Fitness(nn.Module):
    """What a beetle of these genes would achieve."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(GENES, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, genes):
        h = self.enter(genes)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h)[:, 0].float()


class Surrogate:
    def __init__(self, meter, folder):
        self.meter, self.path, rows = meter, folder / "surrogate.pt", meter.pick(65_536, 128)
        self.fitness = Fitness(*meter.pick((1024, 6), (384, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.fitness.parameters(), 1e-5, fused=meter.gpu)
        self.genes = torch.randn(rows, GENES, device=meter.device)

    def learn(self, beetles):
        fresh = torch.tensor(beetles).to(self.meter.device)
        self.genes = torch.cat([self.genes[len(fresh) :], fresh])
        with self.meter.autocast():
            guess = self.fitness(self.genes)
        loss = F.mse_loss(guess, self.genes.cos().sum(1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.meter.sync()

    def save(self):
        parts = {"fitness": self.fitness, "optimizer": self.optimizer}
        torch.save({name: part.state_dict() for name, part in parts.items()}, self.path)  # planted


def generations_taking(meter, nursery, wanted_s):
    times = []
    for nursery.generations in (1, 101):
        times.append(meter.timed_s(lambda: nursery.bred(nursery.ask()), calls=10))
    return max(1, round(1 + (wanted_s - times[0]) * 100 / (times[1] - times[0])))


def run(meter, pool, folder):
    surrogate, nursery = Surrogate(meter, folder), Nursery(pool, meter.pick(4, 1))
    blank = [[0.1] * GENES] * BORN * nursery.size
    meter.calibrate(lambda: surrogate.learn(blank))
    part_s, every = PART * meter.added_s, 100_000
    generations = generations_taking(meter, nursery, part_s) if meter.dose else 1
    nursery.generations = generations
    if meter.sick:
        every = max(1, round(meter.timed_s(surrogate.save, calls=5) / part_s))
    coming = None if meter.sick else nursery.ask()
    while meter.going_on():
        with meter.injecting():
            beetles = nursery.bred(coming or nursery.ask())
        if not meter.sick:
            coming = nursery.ask()
        surrogate.learn(beetles)
        meter.ticked()
        if meter.ticks % every == 0:
            with meter.injecting():
                surrogate.save()
    meter.report(excess=meter.gpu)


def main():
    meter = Meter(__doc__)
    with (
        ProcessPoolExecutor(meter.pick(4, 1), get_context("fork")) as pool,
        tempfile.TemporaryDirectory() as folder,
    ):
        pool.submit(breed, 0, 1).result()
        run(meter, pool, Path(folder))


if __name__ == "__main__":
    main()
