"""Broken pots completed as point clouds; by distances, each guess looks for the template nearest to it.

How many templates there are is the dose. All differences of all points are written out, squared, added and
rooted. A perfect diagnosis: elementwise passes over huge tensors, bound by the GPU's memory (marked below).
Fix: distances by one product, with the squares as one more coordinate.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

POTS, SHARDS = 8, 24


def by_differences(guess, templates):
    """(pots, 3, points) and (templates, 3, points): mean distance of each pot from each template."""
    gaps = guess[:, None, :, :, None] - templates[None, :, :, None]
    return gaps.square().sum(2).sqrt().amin(3).mean(2)  # planted


def by_product(guess, templates):
    one = torch.ones_like(guess[:, :1])
    left = torch.cat([guess, one], 1).mT[:, None]
    right = torch.cat([-2 * templates, templates.square().sum(1, keepdim=True)], 1)
    nearest = torch.matmul(left, right[None]).amin(3) + guess.square().sum(1)[:, None]
    return nearest.clamp(min=0).sqrt().mean(2)


class Completion(nn.Module):
    """From what is known about a place on the pot to the place."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SHARDS, width), nn.Linear(width, 3)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, shards):
        h = self.enter(shards)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float().mT


class Restoration:
    def __init__(self, meter):
        self.meter, self.points = meter, meter.pick(1024, 16)
        self.net = Completion(*meter.pick((4096, 5), (64, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.shards = torch.randn(POTS, self.points, SHARDS, device=meter.device)
        self.collect(2)

    def collect(self, count):
        self.templates = torch.rand(count, 3, self.points, device=self.meter.device)

    def step(self, distances):
        with self.meter.autocast():
            guess = self.net(self.shards)
        with torch.no_grad():
            nearest = self.templates[distances(guess, self.templates).argmin(1)]
        loss = F.smooth_l1_loss(guess, nearest)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def template_s(run):
    guess, times = torch.rand(POTS, 3, run.points, device=run.meter.device), []
    for count in (4, 12):
        templates = torch.rand(count, 3, run.points, device=run.meter.device)
        times.append(run.meter.timed_s(lambda t=templates: by_differences(guess, t), calls=6))
    return max(1e-7, (times[1] - times[0]) / 8)


def main():
    meter = Meter(__doc__)
    run = Restoration(meter)
    meter.calibrate(lambda: run.step(by_product))
    if meter.dose:
        run.collect(max(2, round(meter.added_s / template_s(run))))
    distances = by_differences if meter.sick else by_product
    while meter.going_on():
        run.step(distances)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
