"""Segmentation of cells under the microscope, with a pipeline of transforms in NumPy and a config object.

How many warps a picture gets is the dose. A perfect diagnosis: the batches are made by the training process
itself, since the config's workers are none (the loader marked below), and the GPU waits for them. Fix: eight
workers.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    side: int
    batch: int
    width: int
    depth: int
    warps: int = 0
    workers: int = 0
    lr: float = 1e-4


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image, mask, rng):
        for transform in self.transforms:
            image, mask = transform(image, mask, rng)
        return image, mask


def flip(image, mask, rng):
    return (image[:, ::-1], mask[:, ::-1]) if rng.random() < 0.5 else (image, mask)


def warp(image, mask, rng):
    """Rows slide along a wave, the mask with them."""
    side = len(mask)
    slide = np.rint(2 * np.sin(np.arange(side) / 9 + rng.random() * 6)).astype(int)
    columns = (np.arange(side)[None] + slide[:, None]) % side
    return np.take_along_axis(image, columns[..., None], 1), np.take_along_axis(mask, columns, 1)


class Cells(Dataset):
    def __init__(self, config):
        rng = np.random.default_rng(3)
        self.slides = rng.integers(0, 256, (16, config.side, config.side, 3), np.uint8)
        self.masks = (self.slides[..., 0] > 200).astype(np.int64)
        self.augment = Compose([flip] + [warp] * config.warps)

    def __len__(self):
        return 200_000

    def __getitem__(self, i):
        image, mask = self.augment(self.slides[i % 16], self.masks[i % 16], np.random.default_rng(i))
        return np.ascontiguousarray(image.transpose(2, 0, 1)), np.ascontiguousarray(mask)


class Segmenter(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.down = nn.Conv2d(3, width, 4, stride=2, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.up = nn.ConvTranspose2d(width, 2, 4, stride=2, padding=1)

    def forward(self, x):
        x = self.down(x)
        for conv in self.body:
            x = x + F.relu(conv(x), inplace=True)
        return self.up(x)


class Trainer:
    def __init__(self, meter, config):
        self.meter = meter
        self.model = Segmenter(config.width, config.depth).to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), config.lr, fused=meter.gpu)

    def training_step(self, images, masks):
        images = images.to(self.meter.device, non_blocking=True).float().div_(255)
        masks = masks.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            logits = self.model(images.contiguous(memory_format=torch.channels_last))
            loss = F.cross_entropy(logits, masks)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def warps_taking(meter, config, wanted_s):
    config.warps = 0
    plain = Cells(config)
    plain_s = meter.timed_s(lambda: plain[5], calls=40)
    config.warps = 8
    warped = Cells(config)
    each_s = (meter.timed_s(lambda: warped[5], calls=20) - plain_s) / 8
    return max(0, round((wanted_s / config.batch - plain_s) / each_s))


def main():
    meter = Meter(__doc__)
    config = Config(*meter.pick((128, 16, 256, 12), (64, 4, 24, 4)))
    trainer = Trainer(meter, config)
    dark = torch.zeros(config.batch, 3, config.side, config.side, dtype=torch.uint8)
    blank = blanks(meter, dark, torch.zeros(config.batch, config.side, config.side, dtype=torch.long))
    meter.calibrate(lambda: trainer.training_step(*blank))
    config.warps = warps_taking(meter, config, meter.host_s)
    config.workers = 0 if meter.sick else meter.pick(8, 1)
    cells = Cells(config)
    loader = DataLoader(cells, config.batch, num_workers=config.workers, pin_memory=meter.gpu)  # planted
    batches = iter(loader)
    trainer.training_step(*next(batches))
    while meter.going_on():
        images, masks = next(batches)
        trainer.training_step(images, masks)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
