"""Healthy control: a population of nets that find the way of light through lenses; the worst copy the best.

Tempting: a loop over members in Python, and copies of nets and their optimizers; but a member's step is
long, and they are copied every few hundred steps. A perfect diagnosis: healthy, nothing to mend. The dose
is taken and does nothing; there is no planted line.
"""

import copy
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LENSES, RAY, BATCH, MEMBERS, EXPLOIT_EVERY = 5, 6, 96, 4, 250


class LensNet(nn.Module):
    def __init__(self, size=224):
        super().__init__()
        self.enter = nn.Linear(3 * LENSES + RAY, size)
        self.hidden = nn.ModuleList(nn.Linear(size, size) for _ in range(3))
        self.leave = nn.Linear(size, RAY)

    def forward(self, lenses, ray):
        h = torch.cat([lenses, ray], 1)
        h = F.gelu(self.enter(h))
        for layer in self.hidden:
            h = h + F.gelu(layer(h))
        return ray + self.leave(h)


@dataclass
class Member:
    net: LensNet
    optimizer: torch.optim.Optimizer
    score: float = 10.0

    @classmethod
    def born(cls, device, rate):
        net = LensNet().to(device)
        return cls(net, torch.optim.RMSprop(net.parameters(), lr=rate))

    def step(self, lenses, ray, after):
        loss = F.smooth_l1_loss(self.net(lenses, ray), after)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def exploit(self, better, rng):
        self.net.load_state_dict(better.net.state_dict())
        self.optimizer.load_state_dict(copy.deepcopy(better.optimizer.state_dict()))
        for group in self.optimizer.param_groups:
            group["lr"] *= rng.choice((0.8, 1.25))


def lens_batches(device):
    batches = []
    for _ in range(12):
        lenses, ray = torch.rand(BATCH, 3 * LENSES, device=device), torch.randn(BATCH, RAY, device=device)
        batches.append((lenses, ray, ray + 0.1 * torch.tanh(ray * lenses[:, :RAY])))
    return batches


def main():
    meter, rng = Meter(__doc__), random.Random(0)
    members = [Member.born(meter.device, 10 ** rng.uniform(-4, -3)) for _ in range(MEMBERS)]
    batches, smoothed = lens_batches(meter.device), torch.ones(MEMBERS)

    def generation():
        batch = batches[meter.ticks % len(batches)]
        losses = [member.step(*batch) for member in members]
        smoothed.lerp_(torch.stack(losses).cpu(), 0.05)

    meter.calibrate(generation)
    while meter.going_on():
        generation()
        meter.ticked()
        if meter.ticks % EXPLOIT_EVERY == 0:
            order = smoothed.argsort().tolist()
            members[order[-1]].exploit(members[order[0]], rng)
    meter.report()


if __name__ == "__main__":
    main()
