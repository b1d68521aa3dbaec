"""Healthy control: pollen under the microscope; a loader with few workers, which do not stay.

Tempting: `persistent_workers` is off, and there are only one or two; but an epoch is long, a sample is cheap,
and a batch is always there before it is wanted. A perfect diagnosis: healthy, nothing to mend. The dose is
taken and does nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

GRAINS = 18


class Pollen(Dataset):
    """Crops at random places of large slides."""

    def __init__(self, side):
        self.side = side
        self.slides = np.random.default_rng(0).integers(0, 256, (4, 3, 512, 512), np.uint8)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        top, left = index * 37 % (512 - self.side), index * 91 % (512 - self.side)
        crop = self.slides[index % 4, :, top : top + self.side, left : left + self.side]
        return torch.from_numpy(crop.copy()), index % GRAINS


class PollenNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem, self.grain = nn.Conv2d(3, width, 4, stride=4), nn.Linear(width, GRAINS)
        self.wide = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.norm = nn.GroupNorm(4, width)

    def forward(self, crops):
        h = self.norm(self.stem(crops))
        for conv in self.wide:
            h = h + F.silu(conv(h))
        return self.grain(h.mean((2, 3))).float()


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (8, 48))
    net = PollenNet(*meter.pick((384, 7), (56, 6))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(crops, grains):
        crops, grains = (part.to(meter.device, non_blocking=True) for part in (crops, grains))
        with meter.autocast():
            scores = net(crops.float().div_(255).contiguous(memory_format=torch.channels_last))
        loss = F.cross_entropy(scores, grains)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    crops = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    blank = blanks(meter, crops, torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    loader = DataLoader(Pollen(side), batch, num_workers=meter.pick(2, 1), pin_memory=meter.gpu)
    stream = iter(loader)
    for _ in range(4):
        learn(*next(stream))
    while meter.going_on():
        learn(*next(stream))
        meter.ticked()
    meter.report()
    del stream


if __name__ == "__main__":
    main()
