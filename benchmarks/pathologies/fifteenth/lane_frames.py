"""Lanes of a road, found row by row in frames of a camera; the frames are JPEG files, which PIL decodes.

Batches come from an endless iterator around the loader, which looks as if it fetched ahead, and does not.
How large the frames are is the dose. A perfect diagnosis: the training thread decodes its batches itself
(at the loader, in the iterator, or at the loop over it, all marked). Fix: a worker.
"""

import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

CFG = {
    "batch_size": 8,
    "input_hw": (48, 96),
    "row_anchors": 12,
    "grid_cells": 24,
    "lanes": 4,
    "lr": 4e-4,
    "num_workers": 0,
}


def record_drive(folder, area, frames=8):
    """Frames twice as wide as high, with bright stripes."""
    folder.mkdir(exist_ok=True)
    height, rng = max(48, round((area / 2) ** 0.5)), np.random.default_rng(7)
    for number in range(frames):
        road = rng.normal(90, 12, (height, 2 * height, 3)).clip(0, 255).astype(np.uint8)
        for lane in range(4):
            left = (lane * height) // 2 + number
            road[:, left : left + height // 20 + 1] = 235
        Image.fromarray(road).save(folder / f"{number:06}.jpg", quality=88)
    return folder


class LaneDataset(Dataset):
    def __init__(self, root, cfg):
        self.files, self.cfg, self.rng = sorted(root.glob("*.jpg")), cfg, random.Random(0)

    def __len__(self):
        return 40_000

    def augment(self, image):
        if self.rng.random() < 0.5:
            image = ImageOps.mirror(image)
        return ImageEnhance.Brightness(image).enhance(self.rng.uniform(0.7, 1.3))

    def __getitem__(self, index):
        height, width = self.cfg["input_hw"]
        with Image.open(self.files[index % len(self.files)]) as file:
            image = file.convert("RGB")
        image = self.augment(image.resize((width, height), Image.BILINEAR))
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        rows, lanes = self.cfg["row_anchors"], self.cfg["lanes"]
        cells = (torch.arange(rows * lanes) * 5 + index) % (self.cfg["grid_cells"] + 1)
        return pixels, cells.view(rows, lanes)


class PrefetchIterator:
    """Batches for ever, with the number of the epoch."""

    def __init__(self, loader):
        self.loader, self.epoch, self.stream = loader, 0, iter(loader)

    def next(self):
        try:
            return next(self.stream)  # planted
        except StopIteration:
            self.epoch += 1
            self.stream = iter(self.loader)
            return next(self.stream)


class RowAnchorNet(nn.Module):
    def __init__(self, cfg, width=20):
        super().__init__()
        self.shape = cfg["grid_cells"] + 1, cfg["row_anchors"], cfg["lanes"]
        layers, inside = [], 3
        for stride, outside in ((2, width), (1, width), (2, 2 * width), (1, 2 * width), (2, 2 * width)):
            layers += [nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)]
            layers += [nn.ReLU(inplace=True)]
            inside = outside
        self.backbone = nn.Sequential(*layers, nn.Conv2d(inside, 8, 1), nn.Flatten())
        self.head = nn.Linear(8 * 6 * 12, self.shape[0] * self.shape[1] * self.shape[2])

    def forward(self, pixels):
        return self.head(self.backbone(pixels / 255 - 0.45)).unflatten(1, self.shape)


def train_one(net, optimizer, scheduler, pixels, cells):
    logits = net(pixels.float())
    loss = nn.functional.cross_entropy(logits, cells)
    straight = (logits[:, :, 1:] - logits[:, :, :-1]).abs().mean()
    optimizer.zero_grad(set_to_none=True)
    (loss + 0.05 * straight).backward()
    optimizer.step()
    scheduler.step()
    return loss.detach()


def main():
    meter, cfg = Meter(__doc__), dict(CFG)
    net = RowAnchorNet(cfg).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=cfg["lr"])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50_000)
    blank = torch.zeros(cfg["batch_size"], 3, *cfg["input_hw"])
    zeros = torch.zeros(cfg["batch_size"], cfg["row_anchors"], cfg["lanes"], dtype=torch.long)
    meter.calibrate(lambda: train_one(net, optimizer, scheduler, blank, zeros))
    with tempfile.TemporaryDirectory() as folder:
        folder, area = Path(folder), 2 * 48 * 48
        if meter.dose:

            def decoding(area):
                drive = LaneDataset(record_drive(folder / f"try{area}", area, 2), cfg)
                return lambda: drive[1]

            area = amount_taking(meter, decoding, area, 300_000, meter.added_s / cfg["batch_size"])
        if not meter.sick:
            cfg["num_workers"] = 1
        dataset = LaneDataset(record_drive(folder / "drive", area), cfg)
        loader = DataLoader(  # planted
            dataset,
            batch_size=cfg["batch_size"],
            shuffle=True,
            num_workers=cfg["num_workers"],
            drop_last=True,
        )
        batches = PrefetchIterator(loader)
        for _ in range(3):
            train_one(net, optimizer, scheduler, *batches.next())
        while meter.going_on():
            with meter.injecting():
                pixels, cells = batches.next()  # planted
            train_one(net, optimizer, scheduler, pixels.to(meter.device), cells.to(meter.device))
            meter.ticked()
        meter.report()
        del batches


if __name__ == "__main__":
    main()
