"""Two faults: crops of satellite images are stretched by the training thread, and models saved too often.

Each takes three quarters of a dose. A perfect diagnosis names both: loading in the training thread (first
marked line), and saving (second). Fix: a worker, and an archive every few thousand steps.
"""

import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, SIDE, CHANNELS, USES, BATCH, RARELY = 0.75, 32, 4, 10, 10, 4000


class Crops(Dataset):
    """Each channel is stretched between two percentiles of its surroundings."""

    def __init__(self, around):
        self.around = around
        self.scene = np.random.default_rng(0).gamma(3.0, 400.0, (CHANNELS, 512, 512)).astype(np.float32)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        x, y = index * 37 % (512 - self.around), index * 101 % (512 - self.around)
        window = self.scene[:, y : y + self.around, x : x + self.around]
        low, high = np.percentile(window, (2, 98), axis=(1, 2))[..., None, None]
        crop = ((window[:, :SIDE, :SIDE] - low) / (high - low + 1e-6)).clip(0, 1)
        return crop.astype(np.float32), index % USES


class SeparableBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.deep = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm, self.point = nn.GroupNorm(1, width), nn.Conv2d(width, 2 * width, 1)
        self.back = nn.Conv2d(2 * width, width, 1)

    def forward(self, x):
        return x + self.back(F.gelu(self.point(self.norm(self.deep(x)))))


def land_use_net(width=96):
    stem = nn.Conv2d(CHANNELS, width, 4, 4)
    blocks = [SeparableBlock(width) for _ in range(3)]
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, USES))


class ModelArchive:
    def __init__(self, folder):
        self.folder, self.kept = Path(folder), []

    def save(self, model, step):
        arrays = {name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()}
        path = self.folder / f"step_{step % 3}.npz"
        np.savez_compressed(path, **arrays)
        self.kept = [*self.kept, {"step": step, "file": path.name}][-3:]
        (self.folder / "index.json").write_text(json.dumps(self.kept, indent=2))


def main():
    meter = Meter(__doc__)
    model = land_use_net().to(meter.device)
    optimizer = torch.optim.ASGD(model.parameters(), lr=0.01)

    def fit(crops, uses):
        loss = F.cross_entropy(model(crops.to(meter.device)), uses.to(meter.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: fit(torch.rand(BATCH, CHANNELS, SIDE, SIDE), torch.zeros(BATCH).long()))
    part_s, around, save_every = PART * meter.added_s, SIDE, RARELY
    with tempfile.TemporaryDirectory() as folder:
        archive = ModelArchive(folder)
        if meter.dose:
            work = lambda area: partial(Crops.__getitem__, Crops(round(area**0.5)), 9)  # noqa: E731
            area = amount_taking(meter, work, SIDE**2, 160**2, part_s / BATCH)
            around = min(480, round(area**0.5))
        if meter.sick:
            save_every = max(1, round(meter.timed_s(partial(archive.save, model, 0)) / part_s))
        batches = iter(DataLoader(Crops(around), BATCH, num_workers=0 if meter.sick else 1))
        fit(*next(batches))
        while meter.going_on():
            with meter.injecting():
                batch = next(batches)  # planted
            fit(*batch)
            meter.ticked()
            if meter.ticks % save_every == 0:
                with meter.injecting():
                    archive.save(model, meter.ticks)  # planted
        meter.report()


if __name__ == "__main__":
    main()
