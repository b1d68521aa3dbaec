"""Rain of the next half hour from radar sweeps; an archive holds every sweep packed by zlib.

The training's configuration says nothing of workers, so the loader has none. How many sweeps are averaged
to a frame is the dose. A perfect diagnosis: the training thread unpacks its batches itself (at the loader
or the loop over it, both marked). Fix: workers.
"""

import itertools
import zlib
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, FRAMES, ARCHIVED = 96, 4, 24


@dataclass
class TrainConfig:
    batch_size: int = 6
    lr: float = 3e-4
    width: int = 20
    workers: int = 0
    log_every: int = 50


class RadarArchive(Dataset):
    """Four frames and the one to be foretold; a frame is the mean of some sweeps."""

    def __init__(self, sweeps):
        rng, self.sweeps = np.random.default_rng(3), sweeps
        fields = rng.gamma(2.0, 12.0, (ARCHIVED, SIDE, SIDE)).clip(0, 255).astype(np.uint8) // 8 * 8
        self.packed = [zlib.compress(field.tobytes(), 6) for field in fields]

    def __len__(self):
        return 50_000

    def sweep(self, number):
        raw = zlib.decompress(self.packed[number % ARCHIVED])
        return np.frombuffer(raw, np.uint8).reshape(SIDE, SIDE)

    def frame(self, number):
        total = np.zeros((SIDE, SIDE), np.float32)
        for part in range(self.sweeps):
            total += self.sweep(number + part)
        return (total / self.sweeps)[::2, ::2]

    def __getitem__(self, index):
        frames = np.stack([self.frame(index * 7 + k) for k in range(FRAMES + 1)])
        return torch.from_numpy(frames[:FRAMES] / 255), torch.from_numpy(frames[FRAMES:] / 255)


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(F.relu(self.conv1(F.relu(x))))


class Nowcaster(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(FRAMES, width, 3, padding=1),
            ResBlock(width),
            ResBlock(width),
            nn.Conv2d(width, 1, 1),
        )

    def forward(self, frames):
        return self.net(frames)


class Trainer:
    def __init__(self, config, device):
        self.config, self.device = config, device
        self.model = Nowcaster(config.width).to(device)
        self.optimizer = torch.optim.NAdam(self.model.parameters(), lr=config.lr)
        self.history = []

    def training_step(self, frames, target):
        frames, target = frames.to(self.device), target.to(self.device)
        loss = F.l1_loss(self.model(frames), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, loader, meter):
        for _epoch in itertools.count():
            batches = iter(loader)
            while True:
                with meter.injecting():
                    batch = next(batches, None)  # planted
                if batch is None:
                    break
                loss = self.training_step(*batch)
                meter.ticked()
                if meter.ticks % self.config.log_every == 0:
                    self.history.append(loss.item())
                if not meter.going_on():
                    return


def main():
    meter = Meter(__doc__)
    config = TrainConfig()
    trainer = Trainer(config, meter.device)
    shape = (config.batch_size, FRAMES, SIDE // 2, SIDE // 2)
    meter.calibrate(lambda: trainer.training_step(torch.rand(shape), torch.rand(shape)[:, :1]))
    sweeps = 1
    if meter.dose:

        def reading(sweeps):
            archive = RadarArchive(sweeps)
            return lambda: archive[5]

        sweeps = amount_taking(meter, reading, 1, 12, meter.added_s / config.batch_size)
    if not meter.sick:
        config.workers = 1
    archive = RadarArchive(sweeps)
    loader = DataLoader(archive, config.batch_size, shuffle=True, num_workers=config.workers)  # planted
    meter.going_on()
    trainer.fit(loader, meter)
    meter.report()


if __name__ == "__main__":
    main()
