"""A convolutional autoencoder whose trainer writes weights, their average and the optimizer every few steps.

A perfect diagnosis: the training stands still while a checkpoint is written (marked below), much too often.
Fix: a checkpoint at the end only.
"""

import copy
import tempfile
from pathlib import Path

import torch
from stopwatch import Meter
from torch import nn


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(16, channels)

    def forward(self, x):
        return x + self.norm(self.conv(nn.functional.silu(x)))


class Trainer:
    decay = 0.999

    def __init__(self, model, meter, folder):
        self.meter, self.folder = meter, Path(folder)
        self.model = model.to(meter.device, memory_format=torch.channels_last)
        self.ema = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=meter.gpu)
        self.save_every = None

    def state(self):
        return {
            "model": self.model.state_dict(),
            "ema": self.ema.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.meter.ticks,
        }

    def save(self):
        partial = self.folder / "last.pt.tmp"
        torch.save(self.state(), partial)  # planted
        partial.replace(self.folder / "last.pt")

    def update_ema(self):
        averaged, current = list(self.ema.parameters()), list(self.model.parameters())
        torch._foreach_lerp_(averaged, current, 1 - self.decay)

    def train_step(self, images):
        with self.meter.autocast():
            loss = nn.functional.l1_loss(self.model(images), images)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            self.update_ema()

    def fit(self, images):
        while self.meter.going_on():
            self.train_step(images)
            self.meter.ticked()
            if self.save_every and self.meter.ticks % self.save_every == 0:
                self.save()


def main():
    meter = Meter(__doc__)
    channels, side, bs = meter.pick((512, 64, 256), (32, 16, 8))
    model = nn.Sequential(
        nn.Conv2d(3, channels, 4, stride=4),
        *(Residual(channels) for _ in range(meter.pick(4, 2))),
        nn.ConvTranspose2d(channels, 3, 4, stride=4),
    )
    images = torch.rand(bs, 3, side, side, device=meter.device).to(memory_format=torch.channels_last)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, meter, folder)
        meter.calibrate(lambda: trainer.train_step(images))
        if meter.sick:
            trainer.save_every = max(1, round(meter.timed_s(trainer.save, calls=2) / meter.added_s))
        trainer.fit(images)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
