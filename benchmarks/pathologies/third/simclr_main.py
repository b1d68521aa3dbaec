"""SimCLR whose two views of each image are cropped and jittered by the training process itself.

A perfect diagnosis: the DataLoader has no workers, so the training thread makes the batches while the GPU
has nothing to do. Fix: eight workers.
"""

import time

import numpy as np
import torch
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    def __init__(self, side, jitter_s):
        self.bank = np.random.default_rng(1).random((64, side * 5 // 4, side * 5 // 4, 3), dtype=np.float32)
        self.side, self.jitter_s = side, jitter_s

    def __len__(self):
        return 500_000

    def view(self, image):
        top, left = np.random.randint(0, image.shape[0] - self.side, 2)
        crop = image[top : top + self.side, left : left + self.side]
        until_s = time.thread_time() + self.jitter_s / 2
        while time.thread_time() < until_s:
            crop = np.clip(crop * np.float32(np.random.uniform(0.9, 1.1)), 0, 1)
        return torch.from_numpy(np.ascontiguousarray(crop.transpose(2, 0, 1)))

    def __getitem__(self, idx):
        image = self.bank[idx % len(self.bank)]
        return self.view(image), self.view(image)


class Encoder(nn.Module):
    def __init__(self, width, blocks, dim=128):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(blocks))
        self.proj = nn.Linear(width, dim)

    def forward(self, x):
        x = self.stem(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + torch.relu(norm(conv(x)))
        return nn.functional.normalize(self.proj(x.mean((2, 3))).float(), dim=-1)


def nt_xent(za, zb, temperature=0.2):
    logits = za @ zb.T / temperature
    targets = torch.arange(len(za), device=za.device)
    return (nn.functional.cross_entropy(logits, targets) + nn.functional.cross_entropy(logits.T, targets)) / 2


class SimCLR:
    def __init__(self, meter):
        self.meter = meter
        self.encoder = Encoder(*meter.pick((128, 8), (16, 2))).to(
            meter.device, memory_format=torch.channels_last
        )
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), 0.05, momentum=0.9, nesterov=True)

    def fit_batch(self, views):
        both = torch.cat([view.to(self.meter.device, non_blocking=True) for view in views])
        with self.meter.autocast():
            z = self.encoder(both.to(memory_format=torch.channels_last))
        loss = nt_xent(*z.chunk(2))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


if __name__ == "__main__":
    meter = Meter(__doc__)
    side, bs = meter.pick((96, 64), (24, 16))
    algo = SimCLR(meter)
    blank = blanks(meter, *[torch.zeros(bs, 3, side, side)] * 2)
    meter.calibrate(lambda: algo.fit_batch(blank))
    data = TwoViews(side, jitter_s=meter.host_s / bs)
    workers = 0 if meter.sick else meter.pick(8, 1)
    loader = DataLoader(data, bs, shuffle=True, drop_last=True, num_workers=workers, pin_memory=meter.gpu)
    batches = iter(loader)
    next(batches)
    while meter.going_on():
        views = next(batches)  # planted
        algo.fit_batch(views)
        meter.ticked()
    meter.report(excess=True)
