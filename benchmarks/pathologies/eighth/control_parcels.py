"""Healthy control: crops on parcels of land, through the year; a loader, and an evaluation now and then.

Tempting: a collate function of its own, an evaluation and a checkpoint; but workers keep up, and the rest is
rare and small. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATES, BANDS, CROPS = 24, 10, 15


class Parcels(Dataset):
    """A block of parcels at a time, as they lie in the register."""

    def __init__(self, block):
        rng = np.random.default_rng(0)
        self.block, self.seen = block, rng.standard_normal((8 * block, DATES, BANDS), dtype=np.float32)
        self.crops = rng.integers(0, CROPS, 8 * block)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        rows = slice(index % 8 * self.block, (index % 8 + 1) * self.block)
        return self.seen[rows], self.crops[rows]


def as_batch(blocks):
    seen, crops = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return torch.from_numpy(seen), torch.from_numpy(crops)


class Seasons(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.crop = nn.Linear(BANDS, width), nn.Linear(width, CROPS)
        self.day = nn.Parameter(torch.zeros(DATES, width))
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen) + self.day
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.crop(h.mean(1)).float()


def main():
    meter = Meter(__doc__)
    block = meter.pick(85, 2)
    net = Seasons(*meter.pick((4096, 5), (256, 5))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(seen, crops):
        seen, crops = (part.to(meter.device, non_blocking=True) for part in (seen, crops))
        with meter.autocast():
            loss = F.cross_entropy(net(seen), crops)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(4 * block, DATES, BANDS), torch.zeros(4 * block, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    held_out = [part.to(meter.device) for part in blank]

    @torch.no_grad()
    def evaluate():
        with meter.autocast():
            right = net(held_out[0]).argmax(1) == held_out[1]
        return right.float().mean().item()

    options = {"num_workers": meter.pick(4, 1), "pin_memory": meter.gpu, "collate_fn": as_batch}
    stream = iter(DataLoader(Parcels(block), 4, **options))
    learn(*next(stream))
    with tempfile.TemporaryDirectory() as folder:
        while meter.going_on():
            learn(*next(stream))
            meter.ticked()
            if meter.ticks % 100 == 0:
                evaluate()
                torch.save(net.crop.state_dict(), Path(folder, "crop.pt"))
        meter.report()


if __name__ == "__main__":
    main()
