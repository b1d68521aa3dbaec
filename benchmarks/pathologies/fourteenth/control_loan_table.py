"""Healthy control: will a loan be paid back? A table in memory, given out by a loader without workers.

Tempting: `num_workers=0`, lists of Python before each forward pass; but a batch is a few rows of tensors,
and is there at once. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing;
there is no planted line.
"""

import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

NUMBERS, KINDS, BATCH, MASKED = 20, 16, 192, 6


class ResidualTable(nn.Module):
    def __init__(self, size=480, depth=2):
        super().__init__()
        self.kind = nn.Embedding(KINDS, size)
        self.enter, self.paid = nn.Linear(NUMBERS, size), nn.Linear(size, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(size), nn.Linear(size, size), nn.SELU(), nn.Linear(size, size))
            for _ in range(depth)
        )

    def forward(self, numbers, kinds):
        h = self.enter(numbers) + self.kind(kinds)
        for block in self.blocks:
            h = h + block(h)
        return self.paid(h)[:, 0]


def main():
    meter, rng = Meter(__doc__), random.Random(0)
    rows = 60_000
    table = TensorDataset(torch.randn(rows, NUMBERS), torch.randint(KINDS, (rows,)), torch.rand(rows).round())
    # The sampler hands out whole batches, so each is one lookup.
    batches = BatchSampler(RandomSampler(table), BATCH, drop_last=True)
    loader = DataLoader(table, sampler=batches, batch_size=None, num_workers=0)
    net = ResidualTable().to(meter.device)
    optimizer = torch.optim.NAdam(net.parameters(), lr=1e-3)

    def step(numbers, kinds, paid):
        hidden = [rng.randrange(NUMBERS) for _ in range(MASKED)]
        keep = torch.tensor([float(number not in hidden) for number in range(NUMBERS)])
        logits = net((numbers * keep).to(meter.device), kinds.to(meter.device))
        loss = F.binary_cross_entropy_with_logits(logits, paid.to(meter.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: step(*table[:BATCH]))
    while meter.going_on():
        for batch in loader:
            step(*batch)
            meter.ticked()
            if not meter.going_on():
                break
    meter.report()


if __name__ == "__main__":
    main()
