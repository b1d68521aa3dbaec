"""Butterflies without labels: two views of each must be alike; neighbours in a bank say how good that is.

How often they are asked is the dose. A perfect diagnosis: evaluation takes too large a part of the time (the
call marked below). Fix: they are asked every two thousand steps.
"""

from functools import wraps

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SCALES, SIZE, KINDS = 192, 128, 30


def evaluation(function):
    """In evaluation mode, without gradients, and back."""

    @wraps(function)
    def inner(monitor, *args):
        monitor.net.eval()
        with torch.no_grad():
            found = function(monitor, *args)
        monitor.net.train()
        return found

    return inner


class Wings(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(SCALES, width), nn.LayerNorm(width))
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave, self.drop = nn.Linear(width, SIZE), nn.Dropout(0.05)

    def forward(self, scales):
        h = self.enter(scales)
        for layer in self.body:
            h = h + self.drop(F.gelu(layer(h)))
        return F.normalize(self.leave(h).float(), dim=1)


class NeighbourMonitor:
    """How many of so many butterflies have a neighbour of their kind."""

    def __init__(self, net, meter, known, asked):
        self.net, self.meter = net, meter
        self.known = torch.rand(known, SCALES, device=meter.device)
        self.asked = torch.rand(asked, SCALES, device=meter.device)
        self.kinds = torch.arange(known, device=meter.device) % KINDS
        self.best = 0.0

    def embed(self, scales, rows):
        with self.meter.autocast():
            return torch.cat([self.net(part) for part in scales.split(rows)])

    @evaluation
    def accuracy(self, rows, nearest=20):
        bank, asked = self.embed(self.known, rows), self.embed(self.asked, rows)
        votes = self.kinds[(asked @ bank.T).topk(nearest).indices]
        own = self.kinds[: len(asked), None]
        right = (votes == own).float().mean().item()
        self.best = max(self.best, right)
        return right


class Contrast:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(4096, 64)
        self.net = Wings(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.scales = torch.rand(self.rows, SCALES, device=meter.device)
        self.own = torch.arange(self.rows, device=meter.device)

    def step(self):
        views = self.scales.repeat(2, 1)
        views = views + 0.1 * torch.randn_like(views)
        with self.meter.autocast():
            one, two = self.net(views).chunk(2)
        loss = F.cross_entropy(one @ two.T / 0.2, self.own)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    contrast = Contrast(meter)
    monitor = NeighbourMonitor(contrast.net, meter, *meter.pick((32_768, 8192), (512, 128)))
    meter.calibrate(contrast.step)
    every = 2000
    if meter.sick:
        every = max(1, round(meter.timed_s(lambda: monitor.accuracy(contrast.rows)) / meter.added_s))
    while meter.going_on():
        contrast.step()
        meter.ticked()
        if meter.ticks % every == 0:
            with meter.injecting():
                monitor.accuracy(contrast.rows)  # planted
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
