"""Healthy control: what did the bird say? Calls of different lengths, and a compiled net that takes three.

Tempting: a compiled module whose inputs change their shape from step to step; but calls are padded to one
of three lengths, for each of which it was compiled before. A perfect diagnosis: healthy, nothing to mend.
The dose is taken and does nothing; there is no planted line.
"""

import bisect
import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BANDS, BIRDS, BATCH, BUCKETS = 20, 8, 16, (24, 36, 48)


class BirdNet(nn.Module):
    def __init__(self, size=96):
        super().__init__()
        self.enter = nn.Conv1d(BANDS, size, 3, padding=1)
        self.look = nn.MultiheadAttention(size, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.GELU())
        self.back, self.out = nn.Linear(4 * size, size), nn.Linear(size, BIRDS)

    def forward(self, calls, silent):
        h = self.enter(calls).transpose(1, 2)
        h = h + self.look(h, h, h, key_padding_mask=silent, need_weights=False)[0]
        h = h + self.back(self.mlp(h))
        return self.out(h.masked_fill(silent[:, :, None], 0).mean(1))


class Aviary:
    """A batch is as long as its longest call, made up to the next of the lengths."""

    def __init__(self, device):
        self.device, self.rng = device, random.Random(0)
        self.calls = torch.randn(BATCH, BANDS, BUCKETS[-1], device=device)
        self.birds = torch.randint(BIRDS, (BATCH,), device=device)

    def batch(self, longest=None):
        longest = longest or self.rng.randint(16, BUCKETS[-1])
        length = BUCKETS[bisect.bisect_left(BUCKETS, longest)]
        lengths = torch.tensor([self.rng.randint(12, longest) for _ in range(BATCH)], device=self.device)
        silent = torch.arange(length, device=self.device) >= lengths[:, None]
        return self.calls[:, :, :length].contiguous(), silent


def main():
    meter = Meter(__doc__)
    net, aviary = BirdNet().to(meter.device), Aviary(meter.device)
    compiled = torch.compile(net, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)

    def step(longest=None):
        loss = F.cross_entropy(compiled(*aviary.batch(longest)), aviary.birds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for longest in BUCKETS:
        step(longest)
    meter.calibrate(step)
    while meter.going_on():
        step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
