"""Orchids from scans of an herbarium, told apart by a convolutional net; scans are JPEG, held in memory.

The configuration says `debug`, from the day when a breakpoint in the transform was needed, and then the
loader has no workers. How large the scans are is the dose. A perfect diagnosis: the training thread decodes
its batches itself (at the loader or the line that asks it, both marked). Fix: `debug` is off.
"""

import io
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from stopwatch import Meter, amount_taking, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPECIES, WIDE, SCANS = 12, 160, 16


@dataclass
class Config:
    batch: int
    side: int
    width: int
    depth: int
    workers: int
    debug: bool = True

    @property
    def loader(self):
        return {"batch_size": self.batch, "shuffle": True, "num_workers": 0 if self.debug else self.workers}


class Scans(Dataset):
    def __init__(self, rows, side):
        rng, self.side, slope = np.random.default_rng(0), side, np.linspace(0, 150, WIDE)[None, :, None]
        pictures = (slope + rng.integers(0, 90, (SCANS, rows, WIDE, 3))).astype(np.uint8)
        self.files = [io.BytesIO() for _ in pictures]
        for picture, file in zip(pictures, self.files, strict=True):
            Image.fromarray(picture).save(file, "jpeg", quality=92)

    def __len__(self):
        return 400_000

    def __getitem__(self, index):
        with Image.open(io.BytesIO(self.files[index % SCANS].getvalue())) as scan:
            scan = scan.convert("RGB").resize((self.side, self.side), Image.Resampling.BILINEAR)
        scan = np.asarray(scan)[:, :: -1 if index % 2 else 1]
        return torch.from_numpy(scan.transpose(2, 0, 1).copy()), index % SPECIES


class OrchidNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.species = nn.Linear(width, SPECIES)

    def forward(self, scans):
        scans = (scans.float() / 255).contiguous(memory_format=torch.channels_last)
        h = self.stem(scans)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.species(h.mean((2, 3))).float()


class Trainer:
    def __init__(self, meter, config):
        self.meter, net = meter, OrchidNet(config.width, config.depth)
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def step(self, scans, species):
        scans, species = (part.to(self.meter.device, non_blocking=True) for part in (scans, species))
        with self.meter.autocast():
            scores = self.net(scans)
        loss = F.cross_entropy(scores, species, label_smoothing=0.1)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def fit(self, loader):
        stream = iter(loader)
        self.step(*next(stream))
        while self.meter.going_on():
            with self.meter.injecting():
                batch = next(stream)  # planted
            self.step(*batch)
            self.meter.ticked()


def main():
    meter = Meter(__doc__)
    config = Config(*meter.pick((32, 128, 512, 9, 12), (8, 32, 96, 4, 1)))
    trainer = Trainer(meter, config)
    photos = torch.zeros(config.batch, 3, config.side, config.side, dtype=torch.uint8)
    blank = blanks(meter, photos, torch.zeros(config.batch, dtype=torch.long))
    meter.calibrate(lambda: trainer.step(*blank))
    rows = 12
    if meter.dose:

        def reading(rows):
            scans = Scans(rows, config.side)
            return lambda: scans[5]

        rows = amount_taking(meter, reading, 12, 400, meter.host_s / config.batch)
    config.debug = meter.sick
    loader = DataLoader(Scans(rows, config.side), pin_memory=meter.gpu, **config.loader)  # planted
    trainer.fit(loader)
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
