"""A GAN that gives all cached memory back to the driver after each player's turn, every few steps.

How often is the dose. A perfect diagnosis: the allocator gives memory back and asks for it again all the
time (marked below). Fix: without that. Needs a GPU.
"""

from contextlib import contextmanager, nullcontext

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

NOISE = 64


@contextmanager
def fresh_memory():
    yield
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # planted


class Generator(nn.Module):
    def __init__(self, width, side, depth):
        super().__init__()
        self.width, self.side = width, side
        self.seed = nn.Linear(NOISE, width * 16)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.rgb = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, noise):
        h = self.seed(noise).view(-1, self.width, 4, 4).to(memory_format=torch.channels_last)
        h = F.interpolate(h, size=(self.side, self.side))
        for conv in self.body:
            h = F.leaky_relu(conv(h), 0.2)
        return self.rgb(h).tanh()


class Critic(nn.Module):
    def __init__(self, width, side, depth):
        super().__init__()
        self.body = nn.ModuleList(nn.Conv2d(width if n else 3, width, 3, padding=1) for n in range(depth))
        self.score = nn.Linear(width, 1)

    def forward(self, images):
        h = images
        for conv in self.body:
            h = F.leaky_relu(conv(h), 0.2)
        return self.score(h.mean((2, 3)))


class Game:
    def __init__(self, meter):
        self.meter, (self.batch, width, side, depth) = meter, meter.pick((64, 96, 64, 4), (4, 8, 16, 2))
        self.generator, self.critic = (
            kind(width, side, depth).to(meter.device, memory_format=torch.channels_last)
            for kind in (Generator, Critic)
        )
        self.opt_g, self.opt_c = (
            torch.optim.Adam(player.parameters(), 2e-4, betas=(0.5, 0.99), fused=meter.gpu)
            for player in (self.generator, self.critic)
        )
        photos = torch.rand(self.batch, 3, side, side, device=meter.device)
        self.photos = photos.contiguous(memory_format=torch.channels_last)

    def fakes(self):
        return self.generator(torch.randn(self.batch, NOISE, device=self.meter.device))

    def critic_turn(self):
        with self.meter.autocast():
            with torch.no_grad():
                fakes = self.fakes()
            loss = F.softplus(self.critic(fakes)).mean() + F.softplus(-self.critic(self.photos)).mean()
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()

    def generator_turn(self):
        with self.meter.autocast():
            loss = F.softplus(-self.critic(self.fakes())).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()

    def round(self, memory=nullcontext):
        with memory():
            self.critic_turn()
        with memory():
            self.generator_turn()


def main():
    meter = Meter(__doc__)
    game = Game(meter)
    meter.calibrate(game.round)
    every = 0
    if meter.sick:
        fresh_s = meter.timed_s(lambda: game.round(fresh_memory)) - meter.healthy_s
        every = max(1, round(fresh_s / meter.added_s))
    while meter.going_on():
        game.round(fresh_memory if every and meter.ticks % every == 0 else nullcontext)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
