"""A detector of drones by their centres; the maps it should draw are made while a batch is put together.

How many drones a picture has is the dose. A perfect diagnosis: the workers spend their time in the collate
function, which draws each bump pixel by pixel (marked below). Fix: the bumps by array arithmetic.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

REACH, STRIDE = 3, 4


class Picture(NamedTuple):
    pixels: np.ndarray
    centers: np.ndarray


class Sky(Dataset):
    def __init__(self, side, drones):
        self.side, self.drones = side, drones
        self.clouds = np.random.default_rng(5).integers(0, 256, (8, 3, side, side), np.uint8)

    def __len__(self):
        return 800_000

    def __getitem__(self, index):
        edge = self.side // STRIDE - REACH - 1
        centers = np.random.default_rng(index).integers(REACH, edge, (self.drones, 2))
        return Picture(self.clouds[index % 8], centers)


class DrawTargets:
    def __init__(self, cells, slow):
        self.cells, self.slow = cells, slow

    def bump(self, target, row, column):
        for y in range(row - REACH, row + REACH + 1):
            for x in range(column - REACH, column + REACH + 1):
                target[y][x] = max(
                    target[y][x], math.exp(-((y - row) ** 2 + (x - column) ** 2) / 4)
                )  # planted

    def bumps(self, target, centers):
        near = np.arange(-REACH, REACH + 1)
        shape = np.exp(-(near[:, None] ** 2 + near**2) / 4)
        rows, columns = centers[:, 0, None, None] + near[:, None], centers[:, 1, None, None] + near
        np.maximum.at(target, (rows, columns), shape)

    def __call__(self, pictures):
        targets = []
        for picture in pictures:
            target = np.zeros((self.cells, self.cells))
            if self.slow:
                rows = target.tolist()
                for row, column in picture.centers.tolist():
                    self.bump(rows, row, column)
                target = np.array(rows)
            else:
                self.bumps(target, picture.centers)
            targets.append(target)
        pixels = torch.from_numpy(np.stack([picture.pixels for picture in pictures]))
        return pixels, torch.from_numpy(np.stack(targets)).float()


class CenterNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, STRIDE, stride=STRIDE)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.heat = nn.Conv2d(width, 1, 1)

    def forward(self, pixels):
        h = self.stem(pixels)
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.heat(h)[:, 0].float()


def focal(heat, target):
    likely = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
    hit = target.eq(1).float()
    miss = (1 - target).pow(4) * likely.square() * (1 - likely).log()
    return -(hit * (1 - likely).square() * likely.log() + (1 - hit) * miss).mean()


def drones_taking(meter, side, wanted_s):
    sky, draw, times = Sky(side, 20), DrawTargets(side // STRIDE, slow=True), []
    for count in (0, 20):
        picture = Picture(sky[1].pixels, sky[1].centers[:count])
        times.append(meter.timed_s(lambda p=picture: draw([p]), calls=10))
    return max(2, round((wanted_s - times[0]) * 20 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((32, 256), (4, 64))
    net = CenterNet(*meter.pick((192, 8), (72, 10))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4, fused=meter.gpu)

    def detect(pixels, target):
        pixels, target = (t.to(meter.device, non_blocking=True) for t in (pixels, target))
        with meter.autocast():
            heat = net(pixels.float() / 255)
        optimizer.zero_grad(set_to_none=True)
        focal(heat, target).backward()
        optimizer.step()

    cells = side // STRIDE
    dark = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    blank = blanks(meter, dark, torch.zeros(batch, cells, cells))
    meter.calibrate(lambda: detect(*blank))
    workers = meter.pick(6, 1)
    drones = drones_taking(meter, side, workers * meter.beside_s / batch) if meter.dose else 2
    draw = DrawTargets(cells, slow=meter.sick)
    sky = Sky(side, drones)
    options = {"num_workers": workers, "pin_memory": meter.gpu, "collate_fn": draw}
    stream = iter(DataLoader(sky, batch, **options))
    detect(*next(stream))
    while meter.going_on():
        with meter.injecting():
            pictures = next(stream)
        detect(*pictures)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
