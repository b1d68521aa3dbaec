"""Healthy control: a CNN fed by a loader that keeps up; pinned memory, copies that are not waited for.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    """Flipped and shifted windows of one large picture."""

    def __init__(self, side):
        self.side = side
        self.picture = np.random.default_rng(0).integers(0, 256, (3, 1024, 1024), dtype=np.uint8)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        top, left = index % (1024 - self.side), index // 7 % (1024 - self.side)
        window = self.picture[:, top : top + self.side, left : left + self.side]
        return torch.from_numpy(window[:, :, :: -1 if index % 2 else 1].copy()), index % 2


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(depth))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        x = self.stem(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + torch.relu(norm(conv(x)))
        return self.head(x.mean((2, 3)))


if __name__ == "__main__":
    meter = Meter(__doc__)
    side, batch = meter.pick((128, 128), (32, 16))
    net = Net(*meter.pick((384, 10), (16, 3))).to(meter.device, memory_format=torch.channels_last)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)

    def step(pixels, flipped):
        pixels = pixels.to(meter.device, non_blocking=True).float() / 255
        flipped = flipped.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = nn.functional.cross_entropy(net(pixels), flipped)
        sgd.zero_grad(set_to_none=True)
        loss.backward()
        sgd.step()

    loader = DataLoader(
        Noise(side),
        batch_size=batch,
        shuffle=True,
        num_workers=meter.pick(6, 1),
        pin_memory=meter.gpu,
        prefetch_factor=4,
    )
    batches = iter(loader)
    meter.calibrate(lambda: step(*next(batches)))
    while meter.going_on():
        step(*next(batches))
        meter.ticked()
    meter.report()
