"""A ViT fed by more workers than there are cores, with an augmentation that would need still more cores.

A perfect diagnosis: all cores are busy with loading; another worker would not help, the augmentation must
become cheaper (line marked below). Fix: no supersampled noise in the augmentation.
"""

import os
import time

import numpy as np
import torch
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

CORES = len(os.sched_getaffinity(0))


def perlin_like(side, cpu_s):
    """Octaves of noise, added up until they are fine enough."""
    noise = np.zeros((side, side), np.float32)
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        coarse = np.random.rand(side // 8, side // 8).astype(np.float32)
        noise += np.kron(coarse, np.ones((8, 8), np.float32)) / 16
    return noise


class Noisy(Dataset):
    def __init__(self, side, noise_s):
        self.side, self.noise_s = side, noise_s

    def __len__(self):
        return 10**6

    def __getitem__(self, i):
        image = np.full((3, self.side, self.side), (i % 7) / 7, np.float32)
        if self.noise_s:
            image += perlin_like(self.side, self.noise_s)  # planted
        return image, i % 7


class ViT(nn.Module):
    def __init__(self, dim, depth, patch=8, side=64):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, (side // patch) ** 2, dim))
        block = nn.TransformerEncoderLayer(dim, dim // 64 or 1, 4 * dim, 0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.fc = nn.Linear(dim, 7)

    def forward(self, x):
        return self.fc(self.blocks(self.embed(x).flatten(2).mT + self.pos).mean(1))


def main():
    meter = Meter(__doc__)
    bs, side = meter.pick(192, 8), 64
    model = ViT(*meter.pick((768, 8), (32, 1))).to(meter.device)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=meter.gpu)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, 10_000)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def step(x, y):
        x, y = x.to(meter.device, non_blocking=True), y.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = criterion(model(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
        sched.step()

    blank = blanks(meter, torch.zeros(bs, 3, side, side), torch.zeros(bs, dtype=torch.long))
    meter.calibrate(lambda: step(*blank))
    noise_s = CORES * meter.beside_s / bs if meter.sick else 0.0
    loader = DataLoader(Noisy(side, noise_s), bs, num_workers=CORES + CORES // 2, pin_memory=meter.gpu)
    it = iter(loader)
    next(it)
    while meter.going_on():
        step(*next(it))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
