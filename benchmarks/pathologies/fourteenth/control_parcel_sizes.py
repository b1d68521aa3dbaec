"""Healthy control: size of parcels from pictures of a belt, cropped and turned by a single worker.

Tempting: one worker on a machine with more cores, which is always at work; but it is ready before the
step is. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

BELT, SIDE, BATCH = 64, 40, 28


class BeltPictures(Dataset):
    def __init__(self):
        self.pictures = np.random.default_rng(0).integers(0, 255, (80, BELT, BELT, 3), np.uint8)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        x, y = rng.integers(0, BELT - SIDE, 2)
        picture = self.pictures[index % 80, y : y + SIDE, x : x + SIDE].astype(np.float32)
        picture = np.rot90(picture, rng.integers(4)) * rng.uniform(0.8, 1.2) + rng.normal(
            0, 4, (SIDE, SIDE, 1)
        )
        picture = picture.clip(0, 255).astype(np.uint8).transpose(2, 0, 1)
        return np.ascontiguousarray(picture), np.float32([index % 5, index % 7, index % 3])


class DenseBlock(nn.Module):
    def __init__(self, inside, growth, layers):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(inside + n * growth, growth, 3, padding=1) for n in range(layers)
        )

    def forward(self, x):
        for conv in self.convs:
            x = torch.cat([x, F.relu(conv(x))], 1)
        return x


class ParcelNet(nn.Sequential):
    def __init__(self, growth=16):
        super().__init__(
            nn.Conv2d(3, 24, 4, 2, 1),
            DenseBlock(24, growth, 3),
            nn.MaxPool2d(2),
            DenseBlock(24 + 3 * growth, growth, 3),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            nn.Linear(24 + 6 * growth, 3),
        )


def fit(meter, loader, step):
    for pictures, sizes in loader:
        step(pictures, sizes)
        meter.ticked()
        if not meter.going_on():
            return


def main():
    meter = Meter(__doc__)
    net = ParcelNet().to(meter.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)

    def step(pictures, sizes):
        loss = F.mse_loss(net(pictures.to(meter.device) / 127.5 - 1), sizes.to(meter.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: step(torch.zeros(BATCH, 3, SIDE, SIDE), torch.zeros(BATCH, 3)))
    meter.going_on()
    fit(meter, DataLoader(BeltPictures(), BATCH, shuffle=True, num_workers=1), step)
    meter.report()


if __name__ == "__main__":
    main()
