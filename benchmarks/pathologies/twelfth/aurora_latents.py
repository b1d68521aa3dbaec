"""Latent diffusion of auroras; each step runs inside `with breathing_space`, which tidies up at its end.

That was written when two trainings shared a card. At the end of how few steps it tidies is the dose. A
perfect diagnosis: the allocator's cache is emptied again and again, and all memory is asked for anew (marked
below). Fix: the cache is left alone.
"""

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CHANNELS = 8


class BreathingSpace:
    """Room for others after some steps; `every` 0: never."""

    def __init__(self, gpu):
        self.gpu, self.every, self.steps = gpu, 0, 0

    def make(self):
        if self.gpu:
            torch.cuda.empty_cache()  # planted

    @contextmanager
    def __call__(self):
        yield
        self.steps += 1
        if self.every and self.steps % self.every == 0:
            self.make()


class Block(nn.Module):
    """A convolution that is told how noisy it is."""

    def __init__(self, width):
        super().__init__()
        self.conv, self.told = nn.Conv2d(width, width, 3, padding=1), nn.Linear(1, width)

    def forward(self, h, noise):
        return h + F.silu(self.conv(h) + self.told(noise)[:, :, None, None])


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Conv2d(CHANNELS, width, 2, stride=2)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.leave = nn.ConvTranspose2d(width, CHANNELS, 2, stride=2)

    def forward(self, latents, noise):
        h = self.enter(latents)
        for block in self.blocks:
            h = block(h, noise)
        return self.leave(h).float()


class Diffusion:
    def __init__(self, meter):
        self.meter, (batch, side) = meter, meter.pick((64, 64), (2, 16))
        channels = {"memory_format": torch.channels_last}
        self.net = Denoiser(*meter.pick((384, 7), (24, 3))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        latents = torch.randn(batch, CHANNELS, side, side, device=meter.device)
        self.latents = latents.contiguous(**channels)

    def step(self):
        level = torch.rand(len(self.latents), 1, device=self.meter.device)
        mixed, noise = level[:, :, None, None], torch.randn_like(self.latents)
        with self.meter.autocast():
            found = self.net((1 - mixed) * self.latents + mixed * noise, level)
        loss = F.mse_loss(found, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    diffusion, breathing_space = Diffusion(meter), BreathingSpace(meter.gpu)

    def step():
        with breathing_space():
            diffusion.step()

    meter.calibrate(step)
    if meter.sick and meter.gpu:
        breathing_space.every = 1
        fresh_s = meter.timed_s(step, calls=6) - meter.healthy_s
        breathing_space.every = max(1, round(fresh_s / meter.added_s))
    while meter.going_on():
        step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
