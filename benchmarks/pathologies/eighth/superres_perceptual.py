"""Sharper pictures, judged by a perceptual net; a helper that seeds everything also makes everything exact.

How many crops the perceptual net sees is the dose. A perfect diagnosis: convolutions in fp32 without tensor
cores (marked below). Fix: the perceptual net under autocast, like the rest.
"""

import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


class Sharpener(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.leave = nn.Conv2d(width, 12, 3, padding=1)

    def forward(self, small):
        h = self.enter(small)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return F.pixel_shuffle(self.leave(h), 2)


class Features(nn.Module):
    """Frozen convolutions, as of a net that once learned to tell things apart."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width // 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width // 4, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )
        self.requires_grad_(False)

    def forward(self, pictures):
        return self.layers(pictures)


class PerceptualLoss(nn.Module):
    def __init__(self, features, exact):
        super().__init__()
        self.features, self.exact = features, exact

    def compare(self, guess, truth):
        with torch.no_grad():
            wanted = self.features(truth)
        return F.l1_loss(self.features(guess).float(), wanted.float())  # planted

    def forward(self, guess, truth):
        if not self.exact:
            return self.compare(guess, truth)
        with torch.autocast(guess.device.type, enabled=False):
            return self.compare(guess.float(), truth.float())


def crops_of(pictures, count):
    return pictures.repeat(-(-count // len(pictures)), 1, 1, 1)[:count]


class SuperResolution:
    def __init__(self, meter):
        self.meter, (batch, side, width, depth) = meter, meter.pick((16, 64, 256, 11), (2, 16, 12, 2))
        channels = {"memory_format": torch.channels_last}
        self.net = Sharpener(width, depth).to(meter.device, **channels)
        self.features = Features(meter.pick(256, 8)).to(meter.device, **channels)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.small, self.large = (
            torch.rand(batch, 3, edge, edge, device=meter.device).contiguous(**channels)
            for edge in (side, 2 * side)
        )
        self.crops = 1

    def step(self, perceptual):
        with self.meter.autocast():
            guess = self.net(self.small)
            looks = perceptual(crops_of(guess, self.crops), crops_of(self.large, self.crops))
        loss = F.l1_loss(guess.float(), self.large) + 0.1 * looks
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def crop_s(run, exact):
    """One crop more, there and back."""
    picture = torch.rand_like(run.large[:1]).repeat(8, 1, 1, 1)
    picture = picture.contiguous(memory_format=torch.channels_last).requires_grad_()
    return run.meter.timed_s(lambda: exact(picture, picture.detach()).backward(), calls=6) / 8


def main():
    meter = Meter(__doc__)
    seed_everything(7)
    run = SuperResolution(meter)
    mixed, exact = (PerceptualLoss(run.features, exact) for exact in (False, True))
    meter.calibrate(lambda: run.step(mixed))
    if meter.dose:
        run.crops = max(1, round(meter.added_s / crop_s(run, exact)))
    perceptual = exact if meter.sick else mixed
    while meter.going_on():
        run.step(perceptual)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
