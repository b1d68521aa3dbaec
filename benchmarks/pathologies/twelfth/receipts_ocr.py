"""Amounts on receipts are read letter by letter by a convolutional net; Pillow draws the receipts on the way.

A worker on every core draws them, larger than they are needed, so that edges are smooth. How much larger is
the dose. A perfect diagnosis: the cores are used up by loading; more workers would win nothing, the drawing
marked below must become cheaper. Fix: drawn at the size that is needed.
"""

import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFilter
from stopwatch import Meter, amount_taking, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

HIGH, WIDE, LETTERS, LONG = 16, 96, "0123456789.-", 10


class Receipts(IterableDataset):
    """Amounts without end; `area` is how many drawn pixels there are for one that is read."""

    def __init__(self, area):
        self.scale = max(1.0, area) ** 0.5

    def draw(self, text, rng):
        size = round(WIDE * self.scale), round(HIGH * self.scale)
        paper = Image.new("L", size, 255)
        ink = ImageDraw.Draw(paper)
        for n, letter in enumerate(text):
            ink.text((9 * n * self.scale, rng.random() * 4), letter, fill=0)
        paper = paper.filter(ImageFilter.GaussianBlur(0.4 * self.scale))  # planted
        paper = paper.rotate(rng.uniform(-2, 2), Image.Resampling.BILINEAR, fillcolor=255)  # planted
        return np.asarray(paper.resize((WIDE, HIGH), Image.Resampling.BOX), np.float32) / 255

    def one(self, rng):
        codes = [rng.randrange(len(LETTERS)) for _ in range(LONG)]
        return self.draw([LETTERS[code] for code in codes], rng), np.array(codes)

    def __iter__(self):
        info = get_worker_info()
        rng = random.Random(info.id if info else 0)
        while True:
            yield self.one(rng)


class Reader(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.look = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.letter = nn.Conv2d(width, len(LETTERS), 1)

    def forward(self, receipts):
        h = self.look(receipts[:, None])
        for conv in self.body:
            h = h + F.relu(conv(h))
        return F.adaptive_avg_pool2d(self.letter(h).float(), (1, LONG))[:, :, 0]


class Reading:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(128, 12)
        net = Reader(*meter.pick((384, 9), (32, 2)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def learn(self, receipts, codes):
        receipts, codes = (part.to(self.meter.device, non_blocking=True) for part in (receipts, codes))
        with self.meter.autocast():
            scores = self.net(receipts)
        loss = F.cross_entropy(scores, codes)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def area_taking(meter, batch, cores):
    """What all cores together can draw in a tick, but for what the training needs of them without a GPU."""
    rng = random.Random(0)
    each_s = max(1e-4, (cores * meter.beside_s - meter.pick(0.0, meter.healthy_s)) / batch)

    def drawing(area):
        receipts = Receipts(area)
        return lambda: receipts.one(rng)

    return amount_taking(meter, drawing, 1, 25, each_s)


def main():
    meter, cores = Meter(__doc__), len(os.sched_getaffinity(0))
    reading = Reading(meter)
    codes = torch.zeros(reading.batch, LONG, dtype=torch.long)
    blank = blanks(meter, torch.zeros(reading.batch, HIGH, WIDE), codes)
    meter.calibrate(lambda: reading.learn(*blank))
    area = area_taking(meter, reading.batch, cores) if meter.sick else 1
    stream = iter(DataLoader(Receipts(area), reading.batch, num_workers=cores, pin_memory=meter.gpu))
    for _ in range(3 * cores):
        reading.learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            receipts = next(stream)
        reading.learn(*receipts)
        meter.ticked()
    meter.report(excess=True)
    del stream


if __name__ == "__main__":
    main()
