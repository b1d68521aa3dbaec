"""A denoiser with a loss-aware choice of noise levels, which reads the losses back after every step.

Choosing the next levels is Python, and would be hidden: the GPU would still work on what was launched
before. Reading the losses first is what leaves it empty. Doses 1 to 3 cost about 23, 38 and 44 %. A perfect
diagnosis names the read of a GPU tensor in every step, marked below; `Resampler.draw` is second best. Fix:
the losses are read every 40th step.
"""

import random
import time

import torch
from stopwatch import Meter
from torch import nn

LEVELS = 200
SHARES = (0.0, 0.3, 0.6, 0.8)


class Resampler:
    """Draws levels with odds by the second moment of their last losses."""

    def __init__(self, batch):
        self.batch, self.history, self.passes = batch, [[1.0] * 8 for _ in range(LEVELS)], 1

    def update(self, levels, losses):
        for level, loss in zip(levels, losses, strict=True):
            self.history[level] = [*self.history[level][1:], loss]

    def draw(self):
        for done in range(self.passes):
            kept = self.history[done % LEVELS]
            self.history[done % LEVELS] = [0.999 * value + 0.001 * sum(kept) / 8 for value in kept]
        odds = [sum(value * value for value in kept) ** 0.5 for kept in self.history]
        return random.choices(range(LEVELS), odds, k=self.batch)


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.level = nn.Embedding(LEVELS, width)
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.middle = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, noisy, level):
        x = self.first(noisy) + self.level(level)[:, :, None, None]
        for conv in self.middle:
            x = x + conv(nn.functional.silu(x))
        return self.last(x)


class Diffusion:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(256, 16)
        self.net = Denoiser(*meter.pick((256, 4), (8, 1))).to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=2e-4, fused=meter.gpu)
        side = meter.pick(32, 8)
        self.images = torch.rand(self.batch, 3, side, side, device=meter.device)
        self.images = self.images.to(memory_format=torch.channels_last)
        self.alpha = torch.linspace(0.999, 0.01, LEVELS, device=meter.device)

    def step(self, levels):
        level = torch.tensor(levels)
        level = (level.pin_memory() if self.meter.gpu else level).to(self.meter.device, non_blocking=True)
        noise = torch.randn_like(self.images)
        alpha = self.alpha[level][:, None, None, None]
        with self.meter.autocast():
            guess = self.net(alpha.sqrt() * self.images + (1 - alpha).sqrt() * noise, level)
        losses = (guess.float() - noise).square().mean((1, 2, 3))
        self.optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        self.optimizer.step()
        return losses.detach()


def main():
    meter = Meter(__doc__)
    diffusion = Diffusion(meter)
    sampler = Resampler(diffusion.batch)
    levels = sampler.draw()
    meter.calibrate(lambda: diffusion.step(levels))
    sampler.passes = 1000
    per_pass_s = meter.timed_s(sampler.draw) / sampler.passes
    sampler.passes = round(SHARES[meter.dose] * meter.healthy_s / per_pass_s)
    while meter.going_on():
        losses = diffusion.step(levels)
        if meter.sick or meter.ticks % 40 == 0:
            sampler.update(levels, losses.tolist())  # planted
        begin_s = time.perf_counter()
        levels = sampler.draw()
        meter.injected_s += time.perf_counter() - begin_s if meter.sick else 0.0
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
