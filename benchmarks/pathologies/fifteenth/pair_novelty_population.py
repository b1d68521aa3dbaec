"""Two faults: how novel each of a population is, is found in Python, and garbage is collected too often.

Each takes three quarters of a dose. A perfect diagnosis names both: hot lines of Python on the training
thread (first marked line), and pauses of the garbage collector (second). Fix: distances by tensors;
garbage is left to Python.
"""

import gc
import math
import random

import torch
from stopwatch import Meter, amount_taking

PART, POPULATION, SEEN, HIDDEN, TRIALS, NEAREST, RARELY = 0.75, 24, 12, 64, 96, 8, 5000


class Individual:
    """Who it descends from, and what it did."""

    def __init__(self, parent, deed):
        self.parent, self.deed, self.children = parent, deed, []
        if parent is not None:
            parent.children.append(self)


def family(count, rng):
    everybody = [Individual(None, (0.0, 0.0))]
    while len(everybody) < count:
        everybody.append(Individual(rng.choice(everybody), (rng.gauss(0, 1), rng.gauss(0, 1))))
    return everybody


def novelty_by_hand(deeds, archive):
    novelties = []
    archive = archive.tolist()
    for x, y in deeds:
        distances = sorted(math.hypot(x - other_x, y - other_y) for other_x, other_y in archive)  # planted
        novelties.append(sum(distances[:NEAREST]) / NEAREST)
    return torch.tensor(novelties)


def novelty_by_tensors(deeds, archive):
    distances = torch.cdist(torch.tensor(deeds), archive)
    return distances.topk(NEAREST, largest=False).values.mean(1)


class Strategy:
    """Every generation's nets are the mean's, with noise and its negative; all run as one product."""

    def __init__(self, device, sigma=0.05):
        self.device, self.sigma = device, sigma
        self.shapes = {"in": (SEEN, HIDDEN), "middle": (HIDDEN, HIDDEN), "out": (HIDDEN, 2)}
        self.mean = {name: torch.randn(shape, device=device) * 0.2 for name, shape in self.shapes.items()}
        self.speed = {name: torch.zeros(shape, device=device) for name, shape in self.shapes.items()}
        self.trials = torch.randn(TRIALS, SEEN, device=device)

    def ask(self):
        half = {name: torch.randn(POPULATION // 2, *shape) for name, shape in self.shapes.items()}
        return {name: torch.cat([noise, -noise]).to(self.device) for name, noise in half.items()}

    def run(self, noises):
        nets = {name: self.mean[name] + self.sigma * noise for name, noise in noises.items()}
        state = self.trials.expand(POPULATION, -1, -1)
        for _ in range(4):
            h = torch.tanh(torch.bmm(state, nets["in"]))
            h = torch.tanh(torch.bmm(h, nets["middle"]))
            moved = torch.bmm(h, nets["out"])
            state = torch.cat([state[:, :, 2:], moved], 2)
        return moved.mean(1)

    def tell(self, noises, scores):
        ranks = scores.argsort().argsort().to(self.device) / (POPULATION - 1) - 0.5
        for name, noise in noises.items():
            slope = (ranks[:, None, None] * noise).mean(0) / self.sigma
            self.speed[name].mul_(0.9).add_(slope, alpha=0.01)
            self.mean[name].add_(self.speed[name])


def main():
    meter, rng = Meter(__doc__), random.Random(0)
    strategy, everybody = Strategy(meter.device), family(60_000, rng)
    known, measure = 40, novelty_by_tensors

    def generation(archive, spent):
        noises = strategy.ask()
        deeds = strategy.run(noises).tolist()
        with spent():
            novelty = measure(deeds, archive)
        strategy.tell(noises, novelty)
        archive[rng.randrange(len(archive))] = torch.tensor(deeds[int(novelty.argmax())])

    def archive_of(count):
        return torch.tensor([one.deed for one in everybody[:count]])

    meter.calibrate(lambda: generation(archive_of(known), meter.injecting))
    part_s, tidy_every = PART * meter.added_s, RARELY
    if meter.dose:
        deeds = [[0.1, 0.2]] * POPULATION

        def comparing(count):
            archive = archive_of(count)
            return lambda: novelty_by_hand(deeds, archive)

        known = amount_taking(meter, comparing, 20, 420, part_s)
    if meter.sick:
        tidy_every, measure = max(1, round(meter.timed_s(gc.collect) / part_s)), novelty_by_hand
    archive, meter.injected_s = archive_of(known), 0.0
    while meter.going_on():
        generation(archive, meter.injecting)
        meter.ticked()
        if meter.ticks % tidy_every == 0:
            with meter.injecting():
                gc.collect()  # planted
    meter.report()


if __name__ == "__main__":
    main()
