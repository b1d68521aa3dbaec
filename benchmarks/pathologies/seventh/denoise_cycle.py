"""Denoising diffusion of little sprites; `cycle` makes an endless stream of a loader, as such trainers do.

How few sprites there are, and so how short an epoch is, is the dose. A perfect diagnosis: the worker
processes are started anew at each epoch (the line marked below). Fix: workers that stay.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200


class Sprites(Dataset):
    def __init__(self, count, side):
        self.count, self.side = count, side
        self.sheet = np.random.default_rng(0).random((3, 2 * side, 2 * side), np.float32)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        top, left = index % self.side, index * 7 % self.side
        return self.sheet[:, top : top + self.side, left : left + self.side]


def cycle(loader):
    while True:
        yield from loader  # planted


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.moment = nn.Embedding(STEPS, width)
        self.down, self.up = nn.Conv2d(3, width, 4, stride=4), nn.ConvTranspose2d(width, 3, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, noisy, moment):
        h = self.down(noisy) + self.moment(moment)[:, :, None, None]
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.up(h).float()


class Trainer:
    def __init__(self, meter, batch, side):
        self.meter, self.batch, self.side = meter, batch, side
        self.model = Denoiser(*meter.pick((384, 8), (64, 10))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-5, fused=meter.gpu)
        self.kept = torch.linspace(0.999, 0.01, STEPS, device=meter.device)

    def loader(self, sprites, stay):
        workers = self.meter.pick(6, 1)
        options = {"num_workers": workers, "pin_memory": self.meter.gpu, "persistent_workers": stay}
        return DataLoader(sprites, self.batch, shuffle=True, drop_last=True, **options)

    def step(self, sprites):
        sprites = sprites.to(self.meter.device, non_blocking=True)
        moment = torch.randint(STEPS, (len(sprites),), device=self.meter.device)
        kept, noise = self.kept[moment].view(-1, 1, 1, 1), torch.randn_like(sprites)
        with self.meter.autocast():
            guess = self.model(kept.sqrt() * sprites + (1 - kept).sqrt() * noise, moment)
        loss = F.mse_loss(guess, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def train(self, loader):
        stream = cycle(loader)
        self.step(next(stream))
        while self.meter.going_on():
            self.step(next(stream))
            self.meter.ticked()

    def epoch_s(self):
        """What an epoch costs beside its batches."""
        loader = self.loader(Sprites(self.batch, self.side), stay=False)
        begin_s = time.perf_counter()
        for _ in range(4):
            list(loader)
        return (time.perf_counter() - begin_s) / 4


def main():
    meter = Meter(__doc__)
    trainer = Trainer(meter, *meter.pick((64, 128), (4, 64)))
    (blank,) = blanks(meter, torch.rand(trainer.batch, 3, trainer.side, trainer.side))
    meter.calibrate(lambda: trainer.step(blank))
    batches = max(2, round(trainer.epoch_s() / meter.added_s)) if meter.dose else 200
    sprites = Sprites(trainer.batch * batches, trainer.side)
    trainer.train(trainer.loader(sprites, stay=not meter.sick))
    meter.report(excess=True)


if __name__ == "__main__":
    main()
