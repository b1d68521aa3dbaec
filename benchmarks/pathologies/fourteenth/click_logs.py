"""Will an advertisement be clicked? A factorization machine over hashed fields, read from lines of a log.

The loader has one worker, which parses and hashes each line. How many fields a line has is the dose. A
perfect diagnosis: too few workers, while there is still room on the cores (marked below). Fix: two.
"""

import argparse
import itertools
import random
import zlib

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

BUCKETS, SLOTS, LINES = 20_000, 16, 200


def make_line(rng, fields):
    shown = "\t".join(f"f{number}={rng.randrange(10**6)}" for number in range(fields))
    return f"{rng.randint(0, 1)}\t{shown}"


class ClickLog(Dataset):
    def __init__(self, fields):
        rng = random.Random(0)
        self.lines = [make_line(rng, fields) for _ in range(LINES)]

    def __len__(self):
        return 300_000

    def __getitem__(self, index):
        clicked, *fields = self.lines[index % LINES].split("\t")
        counts = [0.0] * SLOTS
        buckets = [0] * SLOTS
        for field in fields:
            name, _, value = field.partition("=")
            hashed = zlib.crc32(f"{name}:{value}".encode())
            slot = hashed % SLOTS
            buckets[slot] = (buckets[slot] * 31 + hashed) % BUCKETS
            counts[slot] += 1.0
        return torch.tensor(buckets), torch.tensor(counts), float(clicked)


class DeepFM(nn.Module):
    def __init__(self, size=16, hidden=720):
        super().__init__()
        self.linear = nn.Embedding(BUCKETS, 1)
        self.factors = nn.Embedding(BUCKETS, size)
        self.deep = nn.Sequential(
            nn.Linear(SLOTS * size + SLOTS, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, buckets, counts):
        factors = self.factors(buckets)
        pairs = factors.sum(1).square() - factors.square().sum(1)
        deep = self.deep(torch.cat([factors.flatten(1), counts], 1))[:, 0]
        return self.linear(buckets).sum((1, 2)) + 0.5 * pairs.sum(1) + deep


def parse(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.01)
    return parser.parse_args(words)


def main():
    meter = Meter(__doc__)
    options = parse([] if meter.sick or not meter.dose else ["--workers", "2"])
    model = DeepFM().to(meter.device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=options.lr)

    def fit(buckets, counts, clicked):
        logits = model(buckets.to(meter.device), counts.to(meter.device))
        loss = F.binary_cross_entropy_with_logits(logits, clicked.float().to(meter.device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    size = options.batch_size
    meter.calibrate(lambda: fit(torch.zeros(size, SLOTS).long(), torch.zeros(size, SLOTS), torch.ones(size)))
    fields = 4
    if meter.dose:

        def joined(fields):
            log = ClickLog(fields)
            return lambda: default_collate([log[number] for number in range(size)])

        fields = amount_taking(meter, joined, 4, 204, meter.beside_s, calls=6)
    loader = DataLoader(ClickLog(fields), size, shuffle=True, num_workers=options.workers)  # planted
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for _ in range(3):
        fit(*next(batches))
    while meter.going_on():
        with meter.injecting():
            batch = next(batches)
        fit(*batch)
        meter.ticked()
    meter.report()
    del batches


if __name__ == "__main__":
    main()
