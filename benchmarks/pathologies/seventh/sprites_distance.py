"""A generator of sprites; the distance between drawn and real ones, by their covariances, is measured often.

How often is the dose. A perfect diagnosis: evaluation takes too large a part of the time (the call marked
below). Fix: a distance every two thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

NOISE = 32


def net(inputs, width, depth, outputs):
    layers = [nn.Linear(inputs, width), nn.SiLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def frechet(real, drawn):
    """Of two clouds of features, taken for normal ones."""
    means = real.mean(0) - drawn.mean(0)
    one, two = real.T.cov(), drawn.T.cov()
    values, vectors = torch.linalg.eigh(one)
    root = vectors * values.clamp_min(0).sqrt() @ vectors.T
    both = torch.linalg.eigvalsh(root @ two @ root).clamp_min(0).sqrt().sum()
    return means.square().sum() + one.trace() + two.trace() - 2 * both


class Sprites:
    """Adversarial training with a hinge loss."""

    def __init__(self, meter):
        self.meter, (self.rows, self.pixels) = meter, meter.pick((8192, 1024), (128, 192))
        self.generator = net(NOISE, *meter.pick((4096, 2), (192, 2)), self.pixels).to(meter.device)
        self.critic = net(self.pixels, *meter.pick((2048, 2), (192, 1)), 1).to(meter.device)
        self.drawing = torch.optim.Adam(self.generator.parameters(), 1e-5, fused=meter.gpu)
        self.judging = torch.optim.Adam(self.critic.parameters(), 1e-5, fused=meter.gpu)
        self.real = torch.rand(self.rows, self.pixels, device=meter.device)

    def draw(self):
        return self.generator(torch.randn(self.rows, NOISE, device=self.meter.device))

    def step(self):
        with self.meter.autocast():
            drawn = self.draw()
            real, fake = self.critic(self.real).float(), self.critic(drawn.detach()).float()
        worse = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
        self.judging.zero_grad(set_to_none=True)
        worse.backward()
        self.judging.step()
        with self.meter.autocast():
            fooled = -self.critic(drawn).float().mean()
        self.drawing.zero_grad(set_to_none=True)
        fooled.backward()
        self.drawing.step()


class Validator:
    def __init__(self, sprites, size, batches=4):
        self.sprites, self.batches = sprites, batches
        self.features = torch.randn(sprites.pixels, size, device=sprites.real.device) / sprites.pixels**0.5
        self.best = float("inf")

    @torch.inference_mode()
    def __call__(self):
        self.sprites.generator.eval()
        with self.sprites.meter.autocast():
            drawn = [(self.sprites.draw() @ self.features).float() for _ in range(self.batches)]
        distance = frechet(self.sprites.real @ self.features, torch.cat(drawn)).item()
        self.sprites.generator.train()
        self.best = min(self.best, distance)


def main():
    meter = Meter(__doc__)
    sprites = Sprites(meter)
    validator = Validator(sprites, meter.pick(256, 96))
    meter.calibrate(sprites.step)
    every = 2000
    if meter.sick:
        every = max(1, round(meter.timed_s(validator) / meter.added_s))
    while meter.going_on():
        sprites.step()
        meter.ticked()
        if meter.ticks % every == 0:
            with meter.injecting():
                validator()  # planted
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
