"""What is missing in a graph of knowledge? Embeddings of its entities; the graph itself is held as objects.

A learning rate schedule of the project's own also frees memory, after so many of its steps, and there are
many objects alive. After how many is the dose. A perfect diagnosis: pauses of the garbage collector (any
line marked below). Fix: objects that stay are left out of it, and it is seldom called.
"""

import gc
import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

ENTITIES, RELATIONS, FACTS, BATCH, WRONG, SIZE = 20_000, 30, 60_000, 128, 24, 64


class Entity:
    def __init__(self, number):
        self.number, self.facts = number, []


class Fact:
    """Known to both of its ends."""

    def __init__(self, head, relation, tail):
        self.head, self.relation, self.tail = head, relation, tail
        head.facts.append(self)
        tail.facts.append(self)


def build_graph(rng):
    entities = [Entity(number) for number in range(ENTITIES)]
    return [Fact(rng.choice(entities), rng.randrange(RELATIONS), rng.choice(entities)) for _ in range(FACTS)]


class ComplEx(nn.Module):
    def __init__(self):
        super().__init__()
        self.entities, self.relations = nn.Embedding(2000, 2 * SIZE), nn.Embedding(RELATIONS, 2 * SIZE)
        self.hashing = nn.Embedding(50, 2 * SIZE)
        self.mix = nn.Sequential(nn.Linear(2 * SIZE, 256), nn.GELU(), nn.Linear(256, 2 * SIZE))

    def entity(self, numbers):
        return self.mix(self.entities(numbers % 2000) + self.hashing(numbers // 2000))

    def forward(self, head, relation, tails):
        real, imaginary = self.entity(head)[:, None].chunk(2, 2)
        r, i = self.relations(relation)[:, None].chunk(2, 2)
        turned = torch.cat([real * r - imaginary * i, real * i + imaginary * r], 2)
        return (turned * self.entity(tails)).sum(2)


def free_memory():
    gc.collect()  # planted


class RestartsAndRoom(LRScheduler):
    """Warm restarts; every so many steps room is made."""

    def __init__(self, optimizer, period, room_every, spent):
        self.period, self.room_every, self.spent = period, room_every, spent
        super().__init__(optimizer)

    def get_lr(self):
        part = self.last_epoch % self.period / self.period
        return [base * (1 - 0.9 * part) for base in self.base_lrs]

    def step(self, epoch=None):
        super().step(epoch)
        if self.last_epoch and self.last_epoch % self.room_every == 0:
            with self.spent():
                free_memory()  # planted


def main():
    meter, rng = Meter(__doc__), random.Random(2)
    facts = build_graph(rng)
    model = ComplEx().to(meter.device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)

    def drawn():
        rows = rng.sample(facts, BATCH)
        triples = torch.tensor([(fact.head.number, fact.relation, fact.tail.number) for fact in rows])
        return triples.to(meter.device).unbind(1)

    def fit():
        head, relation, tail = drawn()
        wrong = torch.randint(ENTITIES, (BATCH, WRONG), device=meter.device)
        scores = model(head, relation, torch.cat([tail[:, None], wrong], 1))
        loss = F.cross_entropy(scores, torch.zeros_like(head))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(fit)
    room_every = 3000
    if meter.sick:
        gc.collect()
        room_every = max(1, round(meter.timed_s(gc.collect, calls=4) / meter.added_s))
    else:
        gc.freeze()
    schedule = RestartsAndRoom(optimizer, 400, room_every, meter.injecting)
    while meter.going_on():
        fit()
        schedule.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
