"""Roofs, roads and trees in pictures from the air: a small U-net, and workers that turn whole tiles.

There are as many workers as cores. Each turns a tile and its mask in full by PIL, enlarges them, and only
then cuts out what is used. How large tiles are is the dose. A perfect diagnosis: no core is left for
loading, and more workers would not help; the work for a sample must become less (any line marked below).
Fix: the part that is used is cut out first.
"""

import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

PATCH, SMALLEST, CLASSES, BATCH = 32, 56, 4, 12


class Turn:
    def __init__(self, most):
        self.most = most

    def __call__(self, rng, tile, mask):
        angle = rng.uniform(-self.most, self.most)
        return tile.rotate(angle, Image.BICUBIC), mask.rotate(angle, Image.NEAREST)  # planted


class Enlarge:
    def __init__(self, most):
        self.most = most

    def __call__(self, rng, tile, mask):
        size = round(tile.width * rng.uniform(1, self.most))
        return tile.resize((size, size), Image.LANCZOS), mask.resize((size, size), Image.NEAREST)  # planted


class CutOut:
    def __init__(self, side):
        self.side = side

    def __call__(self, rng, tile, mask):
        x, y = (rng.randrange(tile.width - self.side + 1) for _ in range(2))
        box = (x, y, x + self.side, y + self.side)
        return tile.crop(box), mask.crop(box)


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, rng, *images):
        for step in self.steps:
            images = step(rng, *images)
        return images


class Tiles(Dataset):
    def __init__(self, side, transform):
        noise = np.random.default_rng(2)
        self.transform, self.rng = transform, random.Random(1)
        self.tiles = [Image.fromarray(noise.integers(0, 255, (side, side, 3), np.uint8)) for _ in range(4)]
        self.masks = [Image.fromarray(noise.integers(0, CLASSES, (side, side), np.uint8)) for _ in range(4)]

    def __len__(self):
        return 70_000

    def __getitem__(self, index):
        tile, mask = self.transform(self.rng, self.tiles[index % 4], self.masks[index % 4])
        pixels = np.asarray(tile, np.float32).transpose(2, 0, 1) / 255
        return torch.from_numpy(pixels), torch.from_numpy(np.asarray(mask, np.int64))


class TinyUNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.enter = self.block(3, width)
        self.low = self.block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.leave = self.block(2 * width, width)
        self.classes = nn.Conv2d(width, CLASSES, 1)

    @staticmethod
    def block(inside, outside):
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.InstanceNorm2d(outside), nn.ReLU())

    def forward(self, pixels):
        high = self.enter(pixels)
        up = self.up(self.low(F.max_pool2d(high, 2)))
        return self.classes(self.leave(torch.cat([high, up], 1)))


def dice(logits, mask):
    share = logits.softmax(1)
    wanted = F.one_hot(mask, CLASSES).permute(0, 3, 1, 2)
    return 1 - (2 * (share * wanted).sum((0, 2, 3)) / (share + wanted).sum((0, 2, 3))).mean()


def main():
    meter, workers = Meter(__doc__), len(os.sched_getaffinity(0))
    net = TinyUNet().to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def learn(pixels, mask):
        pixels, mask = pixels.to(meter.device), mask.to(meter.device)
        logits = net(pixels)
        optimizer.zero_grad()
        (F.cross_entropy(logits, mask) + dice(logits, mask)).backward()
        optimizer.step()

    meter.calibrate(
        lambda: learn(torch.rand(BATCH, 3, PATCH, PATCH), torch.zeros(BATCH, PATCH, PATCH).long())
    )
    side, whole = SMALLEST, Compose(Turn(25), Enlarge(1.3), CutOut(PATCH))
    first = Compose(CutOut(SMALLEST), Turn(25), CutOut(40), Enlarge(1.2), CutOut(PATCH))
    if meter.dose:
        # All cores together have so much time for a batch, the training's own taken off.
        free_s = meter.healthy_s * (workers * (1 + meter.share) - 1)

        def preparing(area):
            tiles = Tiles(round(area**0.5), whole)
            return lambda: tiles[3]

        side = round(amount_taking(meter, preparing, SMALLEST**2, 200**2, free_s / BATCH) ** 0.5)
    tiles = Tiles(side, whole if meter.sick else first)
    batches = iter(DataLoader(tiles, BATCH, shuffle=True, num_workers=workers))
    for _ in range(2 * workers):
        learn(*next(batches))
    meter.going_on()
    for batch in batches:
        learn(*batch)
        meter.ticked()
        if not meter.going_on():
            break
    meter.report(excess=True)
    del batches


if __name__ == "__main__":
    main()
