"""Healthy control: leaves by a patch transformer; enough workers, an evaluation and a checkpoint rarely.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

PLANTS, PATCH = 40, 8


class Leaves(Dataset):
    """Pictures that are cut, mirrored and made lighter or darker."""

    def __init__(self, count, side):
        self.count, self.side = count, side
        self.photos = np.random.default_rng(0).integers(0, 256, (32, side + 16, side + 16, 3), np.uint8)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        top, left = rng.integers(0, 16, 2)
        photo = self.photos[index % 32, top : top + self.side, left : left + self.side]
        if rng.random() < 0.5:
            photo = photo[:, ::-1]
        light = np.clip(np.arange(256) * rng.uniform(0.8, 1.2), 0, 255).astype(np.uint8)
        return light[photo].transpose(2, 0, 1).copy(), index % PLANTS


class PatchNet(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, PATCH, stride=PATCH)
        heads = max(2, dim // 64)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.plant = nn.Linear(dim, PLANTS)

    def forward(self, photos):
        return self.plant(self.layers(self.patch(photos).flatten(2).mT).mean(1))


class Trainer:
    def __init__(self, meter):
        self.meter, self.scores = meter, []
        self.model = PatchNet(*meter.pick((1024, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=meter.gpu)

    def here(self, photos, plants):
        photos = photos.to(self.meter.device, non_blocking=True)
        return photos.float().div_(255), plants.to(self.meter.device, non_blocking=True)

    def learn(self, batch):
        photos, plants = self.here(*batch)
        with self.meter.autocast():
            loss = F.cross_entropy(self.model(photos), plants, label_smoothing=0.1)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.inference_mode()
    def evaluate(self, batch):
        self.model.eval()
        photos, plants = self.here(*batch)
        with self.meter.autocast():
            right = (self.model(photos).argmax(1) == plants).float().mean()
        self.model.train()
        self.scores.append(right.item())


def endless(loader):
    while True:
        yield from loader


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (8, 32))
    trainer = Trainer(meter)
    loader = DataLoader(
        Leaves(500 * batch, side), batch, shuffle=True, drop_last=True, num_workers=meter.pick(8, 1),
        pin_memory=meter.gpu, persistent_workers=True,
    )  # fmt: skip
    batches = endless(loader)
    meter.calibrate(lambda: trainer.learn(next(batches)))
    rarely = max(50, round(2.0 / meter.healthy_s))
    with tempfile.TemporaryDirectory() as folder:
        while meter.going_on():
            trainer.learn(next(batches))
            meter.ticked()
            if meter.ticks % rarely == rarely // 2:
                trainer.evaluate(next(batches))
            if meter.ticks % (2 * rarely) == rarely:
                torch.save(trainer.model.plant.state_dict(), Path(folder, "plant.pt"))
        meter.report()


if __name__ == "__main__":
    main()
