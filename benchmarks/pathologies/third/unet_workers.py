"""U-Net on drawn shapes: a costly elastic warp for each sample, and three loader workers to do it.

A perfect diagnosis: the training waits for batches that three busy workers cannot make in time, and there
are cores free for more of them. Fix: twelve workers.
"""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from stopwatch import Meter, blanks
from torch.utils.data import DataLoader, Dataset


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, image, mask):
        for transform in self.transforms:
            image, mask = transform(image, mask)
        return image, mask


class ElasticWarp:
    def __init__(self, cpu_s):
        self.cpu_s = cpu_s

    def __call__(self, image, mask):
        until_s = time.thread_time() + self.cpu_s
        while time.thread_time() < until_s:
            angle = float(np.random.uniform(-4, 4))
            image = image.rotate(angle, Image.Resampling.BILINEAR)
            mask = mask.rotate(angle)
        return image, mask


class ToArrays:
    def __call__(self, image, mask):
        return np.array(image).transpose(2, 0, 1).copy(), np.array(mask).astype(np.int64)


class ShapesDataset(Dataset):
    def __init__(self, size, transform):
        self.size, self.transform = size, transform

    def __len__(self):
        return 400_000

    def __getitem__(self, idx):
        rng = np.random.default_rng(idx)
        image, mask = Image.new("RGB", (self.size,) * 2), Image.new("L", (self.size,) * 2)
        for label in (1, 2, 3):
            x, y, r = rng.integers(4, self.size - 4, 3)
            box = [int(x), int(y), int(x + r), int(y + r)]
            ImageDraw.Draw(image).ellipse(box, fill=tuple(int(c) for c in rng.integers(0, 255, 3)))
            ImageDraw.Draw(mask).ellipse(box, fill=label)
        return self.transform(image, mask)


class DoubleConv(nn.Sequential):
    def __init__(self, c_in, c_out):
        layers = []
        for c in (c_in, c_out):
            layers += [nn.Conv2d(c, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(True)]
        super().__init__(*layers)


class UNet(nn.Module):
    def __init__(self, base, levels, n_classes=4):
        super().__init__()
        widths = [base * 2**i for i in range(levels)]
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in zip([3, *widths[:-1]], widths, strict=True))
        self.up = nn.ModuleList(DoubleConv(3 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(base, n_classes, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        for block, skip in zip(self.up, reversed(skips[:-1]), strict=True):
            x = block(torch.cat([F.interpolate(x, scale_factor=2), skip], 1))
        return self.head(x)


def main():
    meter = Meter(__doc__)
    size, bs = meter.pick((128, 32), (32, 8))
    net = UNet(meter.pick(64, 8), meter.pick(4, 2)).to(meter.device, memory_format=torch.channels_last)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=meter.gpu)

    def train_batch(image, mask):
        image = image.to(meter.device, non_blocking=True).float().div_(255)
        mask = mask.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(net(image.to(memory_format=torch.channels_last)), mask)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    black = torch.zeros(bs, 3, size, size, dtype=torch.uint8)
    blank = blanks(meter, black, torch.zeros(bs, size, size, dtype=torch.long))
    meter.calibrate(lambda: train_batch(*blank))
    few, enough = meter.pick((3, 12), (1, 2))
    warp = ElasticWarp(few * meter.beside_s / bs)
    loader = DataLoader(
        ShapesDataset(size, Compose(warp, ToArrays())),
        batch_size=bs,
        num_workers=few if meter.sick else enough,  # planted
        pin_memory=meter.gpu,
    )
    stream = iter(loader)
    next(stream)
    while meter.going_on():
        image, mask = next(stream)
        train_batch(image, mask)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
