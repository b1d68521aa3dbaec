"""How a molecule can be made, step back by step; a graph of all reactions that were looked at is kept.

After each round a context manager reclaims the search's memory. How many molecules the graph has is the
dose. A perfect diagnosis: the training stands still while the garbage collector looks through all of them
(marked below). Fix: no collection by hand; what is thrown away is freed anyhow.
"""

import gc
import math
from contextlib import contextmanager, nullcontext

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BITS, TEMPLATES = 128, 40


class Molecule:
    def __init__(self, name):
        self.name, self.made_by, self.used_in = name, [], []


class Reaction:
    """Known to what it needs and to what it makes."""

    def __init__(self, product, parts):
        self.product, self.parts, self.score = product, parts, {"prior": 1.0 / len(parts)}
        product.made_by.append(self)
        for part in parts:
            part.used_in.append(self)


class ReactionGraph:
    def __init__(self, molecules):
        self.molecules = [Molecule("C" * (n % 30 + 1)) for n in range(molecules)]
        self.reactions = [
            Reaction(self.molecules[n], [self.molecules[n // 2], self.molecules[n // 3]])
            for n in range(2, molecules)
        ]

    def route(self, number):
        """Back to what can be bought."""
        molecule, steps = self.molecules[number % len(self.molecules)], 0
        while molecule.made_by:
            molecule, steps = molecule.made_by[0].parts[0], steps + 1
        return steps


@contextmanager
def reclaimed():
    try:
        yield
    finally:
        gc.collect()  # planted


class TemplateNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.template = nn.Linear(BITS, width), nn.Linear(width, TEMPLATES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, prints):
        h = self.enter(prints)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.template(h).float()


class Search:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.net = TemplateNet(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.prints = (torch.rand(rows, BITS, device=meter.device) > 0.8).float()
        self.used = torch.randint(TEMPLATES, (rows,), device=meter.device)
        self.graph, self.longest, self.round_steps = ReactionGraph(500), 0, 40

    def learn(self):
        with self.meter.autocast():
            scores = self.net(self.prints)
        loss = F.cross_entropy(scores, self.used)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def step(self, number):
        self.longest = max(self.longest, self.graph.route(number))
        self.learn()

    def round(self, surroundings):
        with surroundings():
            for _ in range(self.round_steps):
                self.step(self.meter.ticks)
                self.meter.ticked()
                if not self.meter.going_on():
                    return


def size_up(meter, search):
    """Steps of a round, and as many molecules as make its end last."""
    bare_s = meter.timed_s(gc.collect)
    probe = ReactionGraph(20_000)
    each_s = max(1e-7, (meter.timed_s(gc.collect) - bare_s) / 20_000)
    del probe
    search.round_steps = max(5, math.ceil(1.5 * bare_s / meter.host_s))
    wanted_s = search.round_steps * meter.added_s + (meter.healthy_s if meter.gpu else 0.0)
    search.graph = ReactionGraph(max(500, round((wanted_s - bare_s) / each_s)))


def main():
    meter = Meter(__doc__)
    search = Search(meter)
    meter.calibrate(lambda: search.step(7))
    if meter.dose:
        size_up(meter, search)
    while meter.going_on():
        search.round(reclaimed if meter.sick else nullcontext)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
