"""Embeddings of a knowledge graph, whose entities are Python objects; a `with` around each stretch tidies up.

How many entities there are is the dose. A perfect diagnosis: the training stands still while the garbage
collector looks through all of them (marked below). Fix: the stretch ends without collecting.
"""

import gc
import math
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ENTITIES, RELATIONS = 2000, 24


class Entity:
    def __init__(self, number):
        self.number, self.names, self.near = number, [f"e{number}", f"q{number}"], {}

    def link(self, other, relation):
        self.near[relation] = other
        other.near[-relation - 1] = self


class Graph:
    def __init__(self, count):
        self.entities = [Entity(n) for n in range(count)]
        for n, entity in enumerate(self.entities):
            entity.link(self.entities[(7 * n + 1) % count], n % RELATIONS)

    def triples(self):
        return torch.tensor(
            [
                (entity.number % ENTITIES, relation, other.number % ENTITIES)
                for entity in self.entities[:ENTITIES]
                for relation, other in entity.near.items()
                if relation >= 0
            ]
        )


@contextmanager
def stretch(collecting):
    """Some steps that belong together; afterwards nothing of theirs is left."""
    seen = []
    yield seen
    seen.clear()
    if collecting:
        gc.collect()  # planted


class Scorer(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.entity, self.relation = nn.Embedding(ENTITIES, dim), nn.Embedding(RELATIONS, dim)
        self.body = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, head, relation):
        h = self.entity(head) * self.relation(relation)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return h @ self.entity.weight.T


def train(meter, graph, scorer, optimizer, rows):
    """Endless; yields after each step."""
    triples = graph.triples().to(meter.device)
    while True:
        chosen = triples[torch.randint(len(triples), (rows,), device=meter.device)]
        with meter.autocast():
            scores = scorer(chosen[:, 0], chosen[:, 1])
        loss = F.cross_entropy(scores.float(), chosen[:, 2], label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        yield loss.detach()


def sized(meter):
    """Steps in a stretch and a graph, for a pause of the wanted length after each stretch."""
    bare_s = meter.timed_s(gc.collect)
    probe = Graph(20_000)
    each_s = max(1e-8, (meter.timed_s(gc.collect) - bare_s) / len(probe.entities))
    steps = max(5, math.ceil(1.5 * bare_s / meter.host_s))
    return steps, Graph(max(4000, round((steps * meter.host_s - bare_s) / each_s)))


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 128)
    scorer = Scorer(*meter.pick((4096, 4), (256, 2))).to(meter.device)
    optimizer = torch.optim.Adagrad(scorer.parameters(), 1e-3, foreach=True)
    small = Graph(4000)
    steps = train(meter, small, scorer, optimizer, rows)
    meter.calibrate(lambda: next(steps))
    length, graph = sized(meter) if meter.dose else (20, small)
    steps = train(meter, graph, scorer, optimizer, rows)
    while meter.going_on():
        with stretch(collecting=meter.sick) as seen:
            for _ in range(length):
                seen.append(next(steps))
                meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
