"""A segmentation net on drawn scenes: every sample is made on the training's own thread.

A perfect diagnosis: the training waits for its loader, which has no workers (`num_workers=0`): making the
samples stops everything else. Fix: six workers.
"""

import random
import time

import numpy as np
import torch
from meter import Meter
from PIL import Image, ImageDraw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    """Ellipses on a noisy ground, and a mask of where they are; drawn anew each time."""

    def __init__(self, side: int, least_s: float) -> None:
        self.side, self.least_s = side, least_s

    def __len__(self) -> int:
        return 500_000

    def __getitem__(self, index: int):
        begin_s = time.thread_time()
        mask = Image.new("L", (self.side, self.side))
        pen = ImageDraw.Draw(mask)
        while True:
            x, y, r = (random.random() * self.side for _ in range(3))
            pen.ellipse((x - r / 4, y - r / 4, x + r / 4, y + r / 4), fill=1)
            if time.thread_time() - begin_s >= self.least_s:
                break
        pixels = np.asarray(mask)
        ground = np.random.randint(0, 128, pixels.shape, dtype=np.uint8)
        return torch.from_numpy(ground + 100 * pixels)[None], torch.from_numpy(pixels.copy())


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = nn.ModuleList(nn.Conv2d(2 * width, 2 * width, 3, padding=1) for _ in range(6))
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.head = nn.ConvTranspose2d(2 * width, 2, 2, stride=2)

    def forward(self, x):
        high = torch.relu(self.stem(x))
        low = torch.relu(self.down(high))
        for layer in self.middle:
            low = low + torch.relu(layer(low))
        return self.head(torch.cat((high, self.up(low)), dim=1))


class Trainer:
    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.net = Net(meter.pick(128, 8)).to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        self.loss = nn.CrossEntropyLoss()

    def step(self, pixels: torch.Tensor, mask: torch.Tensor) -> None:
        pixels = pixels.to(self.meter.device, non_blocking=True)
        mask = mask.to(self.meter.device, non_blocking=True).long()
        with self.meter.autocast():
            loss = self.loss(self.net(pixels.float() / 255), mask)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def fit(self, loader: DataLoader) -> None:
        while True:
            for pixels, mask in loader:
                if not self.meter.going_on():
                    return
                self.step(pixels, mask)
                self.meter.ticked()


if __name__ == "__main__":
    meter = Meter(__doc__)
    trainer = Trainer(meter)
    batch, side = meter.pick(64, 8), meter.pick(256, 64)
    pair = (torch.zeros(batch, 1, side, side, dtype=torch.uint8), torch.zeros(batch, side, side))
    meter.calibrate(lambda: trainer.step(*pair))
    data = Scenes(side, least_s=meter.host_s / batch)
    workers = 0 if meter.sick else meter.pick(6, 2)  # planted
    trainer.fit(
        DataLoader(data, batch, num_workers=workers, pin_memory=meter.gpu, persistent_workers=workers > 0)
    )
    meter.report(excess=True)
