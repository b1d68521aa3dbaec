"""Healthy control: seeds of crops, in very short epochs, from a loader with few workers that stay.

Tempting: an epoch of some dozen steps, and a loader with one or two workers; but they are not started again,
and what they do is quickly done. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

CROPS = 16


class Seeds(Dataset):
    """Batches are cut as one, since pictures lie side by side."""

    def __init__(self, batch, batches, side):
        self.batch, self.batches, self.side = batch, batches, side
        self.tray = np.random.default_rng(0).integers(0, 255, (4 * batch, 3, side, side), np.uint8)

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        first = index * 37 % (3 * self.batch)
        kinds = (np.arange(self.batch) + index) % CROPS
        return torch.from_numpy(self.tray[first : first + self.batch]), torch.from_numpy(kinds)


class SeedNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem, self.crop = nn.Conv2d(3, width, 4, stride=4), nn.Linear(width, CROPS)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, seeds):
        h = self.stem(seeds)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.crop(h.mean((2, 3)))


class Loop:
    def __init__(self, meter, loader, step):
        self.meter, self.loader, self.step, self.epochs = meter, loader, step, 0

    def epoch(self):
        for batch in self.loader:
            if not self.meter.going_on():
                return False
            self.step(*batch)
            self.meter.ticked()
        self.epochs += 1
        return True


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (4, 64))
    net = SeedNet(*meter.pick((384, 8), (64, 10))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def step(seeds, crops):
        seeds, crops = (t.to(meter.device, non_blocking=True) for t in (seeds, crops))
        with meter.autocast():
            loss = F.cross_entropy(net(seeds.float() / 255).float(), crops)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    dark = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    blank = blanks(meter, dark, torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: step(*blank))
    loader = DataLoader(
        Seeds(batch, 40, side),
        batch_size=None,
        shuffle=True,
        num_workers=meter.pick(2, 1),
        pin_memory=meter.gpu,
        persistent_workers=True,
    )
    step(*next(iter(loader)))
    loop = Loop(meter, loader, step)
    while loop.epoch():
        pass
    meter.report()


if __name__ == "__main__":
    main()
