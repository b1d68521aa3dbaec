"""Corals on sea floors, told apart by a residual net; tiles are tinted and blurred by Pillow.

The number of workers comes from an environment variable which nobody has set. How many filters a tile goes
through is the dose. A perfect diagnosis: the batches are made by the training thread, for which the GPU
waits (at the loader or the line that asks it, both marked). Fix: workers.
"""

import os
import random
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

CORALS = 11


@dataclass
class Settings:
    batch: int
    side: int
    width: int
    depth: int
    workers: int = field(default_factory=lambda: int(os.environ.get("CORAL_WORKERS", "0")))


class Tiles(Dataset):
    """Of water that is never clear: each filter is one layer of it."""

    def __init__(self, side, filters):
        rng = np.random.default_rng(0)
        self.tiles = rng.integers(0, 256, (64, side, side, 3), np.uint8)
        self.filters = filters

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        tile, rng = Image.fromarray(self.tiles[index % 64]), random.Random(index)
        for _ in range(self.filters):
            tile = tile.filter(ImageFilter.BoxBlur(rng.random()))
        return torch.from_numpy(np.array(tile)).permute(2, 0, 1), index % CORALS


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, h):
        return h + F.relu(self.norm(self.conv(h)))


def coral_net(width, depth):
    stem = nn.Conv2d(3, width, 4, stride=4)
    tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CORALS))
    return nn.Sequential(stem, *(Block(width) for _ in range(depth)), *tail)


class Trainer:
    def __init__(self, meter, settings):
        self.meter, self.settings = meter, settings
        channels = {"memory_format": torch.channels_last}
        self.net = coral_net(settings.width, settings.depth).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def batches(self, tiles, workers):
        options = {"num_workers": workers, "pin_memory": self.meter.gpu}
        loader = DataLoader(tiles, self.settings.batch, **options)  # planted
        stream = iter(loader)
        while True:
            with self.meter.injecting():
                batch = next(stream)  # planted
            yield batch

    def step(self, tiles, corals):
        tiles, corals = (part.to(self.meter.device, non_blocking=True) for part in (tiles, corals))
        tiles = tiles.float().div_(255).contiguous(memory_format=torch.channels_last)
        with self.meter.autocast():
            scores = self.net(tiles)
        loss = F.cross_entropy(scores.float(), corals)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def filters_taking(meter, side, wanted_s):
    none, some = Tiles(side, 0), Tiles(side, 12)
    none_s, some_s = (meter.timed_s(lambda t=tiles: t[5], calls=60) for tiles in (none, some))
    return max(1, round((wanted_s - none_s) * 12 / (some_s - none_s)))


def main():
    meter = Meter(__doc__)
    settings = Settings(*meter.pick((64, 128, 384, 7), (6, 48, 48, 6)))
    trainer = Trainer(meter, settings)
    tiles = torch.zeros(settings.batch, 3, settings.side, settings.side, dtype=torch.uint8)
    blank = blanks(meter, tiles, torch.zeros(settings.batch, dtype=torch.long))
    meter.calibrate(lambda: trainer.step(*blank))
    filters = 1
    if meter.dose:
        filters = filters_taking(meter, settings.side, meter.host_s / settings.batch)
    workers = settings.workers if meter.sick else meter.pick(12, 1)
    batches = trainer.batches(Tiles(settings.side, filters), workers)
    trainer.step(*next(batches))
    meter.injected_s = 0.0
    while meter.going_on():
        trainer.step(*next(batches))
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
