"""Sketches kept as strokes of a pen, which the loader's workers draw; how many those are, a helper decides.

How many points a stroke has is the dose. A perfect diagnosis: the few workers are busy all the time and
deliver too slowly, with cores free for more (the loader marked below). Fix: more workers.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, THINGS = 32, 50


def sensible_workers(most):
    """As in many a template."""
    return min(most, os.cpu_count() or 1)


class Sketches(Dataset):
    def __init__(self, points):
        self.points = points

    def __len__(self):
        return 1_000_000

    def strokes(self, index):
        rng = np.random.default_rng(index)
        turns = rng.normal(0.0, 0.4, self.points).cumsum()
        walk = np.stack([np.cos(turns), np.sin(turns)]).cumsum(1)
        return ((walk - walk.min()) / (np.ptp(walk) + 1e-6) * (SIDE - 1)).tolist()

    def __getitem__(self, index):
        canvas = np.zeros((1, SIDE, SIDE), np.float32)
        for x, y in zip(*self.strokes(index), strict=True):
            column, row = int(x), int(y)
            canvas[0, row, column] += (1 - x + column) * (1 - y + row)
        return torch.from_numpy(np.minimum(canvas, 1.0)), index % THINGS


class SketchNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 2, stride=2)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.thing = nn.Linear(width, THINGS)

    def forward(self, sketches):
        h = self.stem(sketches)
        for conv in self.body:
            h = h + F.elu(conv(h))
        return self.thing(h.amax((2, 3))).float()


class DataModule:
    def __init__(self, meter, points):
        self.meter, self.batch = meter, meter.pick(256, 8)
        self.set = Sketches(points)

    def train_dataloader(self, workers):
        options = {"pin_memory": self.meter.gpu, "persistent_workers": True, "drop_last": True}
        return DataLoader(self.set, self.batch, num_workers=workers, **options)  # planted


def points_taking(meter, wanted_s):
    few_s, many_s = (meter.timed_s(lambda n=n: Sketches(n)[5], calls=30) for n in (20, 2020))
    return max(20, round(20 + (wanted_s - few_s) * 2000 / (many_s - few_s)))


def main():
    meter = Meter(__doc__)
    net = SketchNet(*meter.pick((320, 7), (48, 5))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(sketches, things):
        sketches = sketches.to(meter.device, non_blocking=True, memory_format=torch.channels_last)
        things = things.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(net(sketches), things)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    batch = meter.pick(256, 8)
    blank = blanks(meter, torch.zeros(batch, 1, SIDE, SIDE), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    few, many = meter.pick((2, 12), (1, 2))
    points = points_taking(meter, few * meter.beside_s / batch) if meter.dose else 20
    workers = sensible_workers(few if meter.sick else many)
    stream = iter(DataModule(meter, points).train_dataloader(workers))
    learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            drawn = next(stream)
        learn(*drawn)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
