"""A contextual bandit that places advertisements: visitors are records of words, hashed in every step.

How many visitors are hashed in a step is the dose. A perfect diagnosis: a line of Python on the training
thread (marked below), for which the GPU waits. Fix: each visitor is hashed once, and kept as a row.
"""

import zlib
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FIELDS = ("country", "browser", "hour", "page", "campaign", "age", "device", "referrer")
BUCKETS, ADS = 4096, 16


@dataclass
class Settings:
    width: int
    depth: int
    rows: int
    noise: float = 0.1
    lr: float = 1e-5


class Visitors:
    def __init__(self, count):
        numbers = np.random.default_rng(2).integers(0, 500, (count, len(FIELDS))).tolist()
        self.records = [dict(zip(FIELDS, row, strict=True)) for row in numbers]
        self.hashed = np.array([self.buckets(record) for record in self.records])

    def buckets(self, record):
        return [zlib.crc32(f"{name}={value}".encode()) % BUCKETS for name, value in record.items()]  # planted

    def hash_now(self, first, count):
        size = len(self.records)
        return np.array([self.buckets(self.records[(first + n) % size]) for n in range(count)])

    def look_up(self, first, count):
        return self.hashed[(first + np.arange(count)) % len(self.hashed)]


class Bandit(nn.Module):
    """The value of each advertisement for a visitor; the best guess with some noise is shown."""

    def __init__(self, settings):
        super().__init__()
        self.words = nn.EmbeddingBag(BUCKETS, settings.width, mode="sum")
        self.body = nn.ModuleList(nn.Linear(settings.width, settings.width) for _ in range(settings.depth))
        self.value = nn.Linear(settings.width, ADS)

    def forward(self, buckets):
        h = self.words(buckets)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.value(h).float()


class Placement:
    def __init__(self, meter, settings):
        self.meter, self.settings = meter, settings
        self.bandit = Bandit(settings).to(meter.device)
        self.optimizer = torch.optim.Adam(self.bandit.parameters(), settings.lr, fused=meter.gpu)
        self.taste = torch.rand(BUCKETS, ADS, device=meter.device)
        self.seen = torch.randint(BUCKETS, (settings.rows, len(FIELDS)), device=meter.device)

    def visit(self, buckets):
        new = torch.from_numpy(buckets[: len(self.seen)])
        new = new.pin_memory() if self.meter.gpu else new
        self.seen[: len(new)].copy_(new, non_blocking=True)

    def play(self):
        with self.meter.autocast():
            values = self.bandit(self.seen)
        noisy = values.detach() + self.settings.noise * torch.randn_like(values)
        shown = noisy.argmax(1, keepdim=True)
        clicked = self.taste[self.seen[:, 0]].gather(1, shown)
        loss = F.mse_loss(values.gather(1, shown), clicked)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    placement = Placement(meter, Settings(*meter.pick((4096, 5, 8192), (192, 4, 256))))
    visitors = Visitors(10_000)
    meter.calibrate(lambda: (placement.visit(visitors.look_up(0, 64)), placement.play()))
    one_s = meter.timed_s(lambda: visitors.hash_now(0, 4000), calls=2) / 4000
    count = max(32, round(meter.host_s / one_s))
    encode, first = visitors.hash_now if meter.sick else visitors.look_up, 0
    while meter.going_on():
        with meter.injecting():
            arrived = encode(first, count)
        placement.visit(arrived)
        placement.play()
        first += count
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
