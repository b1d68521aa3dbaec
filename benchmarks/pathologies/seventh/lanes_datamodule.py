"""Lane markings in road pictures, with a trainer and a data module in the manner of Lightning.

How often a road picture is warped is the dose. A perfect diagnosis: the pictures are made by the training
process itself, since the data module's settings are those of a debugger (marked below). Fix: workers.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

LANES = 4


@dataclass
class Settings:
    batch: int
    high: int
    wide: int
    warps: int = 0
    workers: int = 0
    debugging: bool = False


class Roads(Dataset):
    """A road seen from above, with bends and slopes; the lanes bend with it."""

    def __init__(self, settings):
        self.s = settings
        rng = np.random.default_rng(0)
        self.asphalt = rng.random((3, settings.high, settings.wide), np.float32)

    def __len__(self):
        return 500_000

    def warped(self, picture, bend):
        """Row by row, between two neighbours."""
        rows, columns = np.arange(self.s.high)[:, None], np.arange(self.s.wide)
        moved = columns + bend * np.sin(rows / self.s.high * 3.0)
        left = np.floor(moved).astype(np.int64)
        part = (moved - left).astype(np.float32)
        near, far = picture[:, rows, left % self.s.wide], picture[:, rows, (left + 1) % self.s.wide]
        return near * (1 - part) + far * part

    def __getitem__(self, index):
        picture, bend = self.asphalt, float(index % 17 - 8)
        for n in range(self.s.warps):
            picture = self.warped(picture, bend / (n + 1))
        return picture, np.linspace(-1, 1, LANES, dtype=np.float32) + 0.01 * bend


class LaneData:
    def __init__(self, settings, pin):
        self.settings, self.pin = settings, pin

    def train_dataloader(self):
        options = {"num_workers": self.settings.workers, "pin_memory": self.pin, "shuffle": True}
        if self.settings.debugging:
            options["num_workers"] = 0
        return DataLoader(Roads(self.settings), self.settings.batch, drop_last=True, **options)  # planted


class LaneNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.lanes = nn.Linear(width, LANES)

    def forward(self, pictures):
        h = self.stem(pictures)
        for conv in self.body:
            h = h + F.hardswish(conv(h))
        return self.lanes(h.mean((2, 3))).float()


class Trainer:
    def __init__(self, meter, net):
        self.meter, self.net = meter, net.to(meter.device)
        self.optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def training_step(self, batch):
        pictures, lanes = (t.to(self.meter.device, non_blocking=True) for t in batch)
        with self.meter.autocast():
            loss = F.smooth_l1_loss(self.net(pictures), lanes)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def fit(self, data):
        batches = iter(data.train_dataloader())
        self.training_step(next(batches))
        while self.meter.going_on():
            with self.meter.injecting():
                batch = next(batches)
            self.training_step(batch)
            self.meter.ticked()


def batch_s(meter, settings):
    """Seconds of a batch without a warp, and of one warp more."""
    times = []
    for settings.warps in (0, 4):
        roads = Roads(settings)
        loading = DataLoader(roads, settings.batch)
        batches = iter(loading)
        times.append(meter.timed_s(lambda b=batches: next(b), calls=6))
    return times[0], max(1e-6, (times[1] - times[0]) / 4)


def main():
    meter = Meter(__doc__)
    settings = Settings(*meter.pick((64, 128, 128), (4, 64, 64)), workers=meter.pick(12, 1))
    trainer = Trainer(meter, LaneNet(*meter.pick((384, 8), (64, 10))))
    pictures = torch.rand(settings.batch, 3, settings.high, settings.wide)
    blank = blanks(meter, pictures, torch.zeros(settings.batch, LANES))
    meter.calibrate(lambda: trainer.training_step(blank))
    bare_s, each_s = batch_s(meter, settings)
    settings.warps = max(0, round((meter.host_s - bare_s) / each_s))
    settings.debugging = meter.sick
    trainer.fit(LaneData(settings, meter.gpu))
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
