"""Healthy control: hours of a power plant, filled in where they are missing; the net is compiled.

Tempting: a compiled module, whose learning rate and masks change at every step; but all of these are
tensors of the same shapes, and it is compiled once. A perfect diagnosis: healthy, nothing to mend. The
dose is taken and does nothing; there is no planted line.
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

HOURS, VALUES, BATCH = 48, 8, 24


class MixerBlock(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.over_hours = nn.Sequential(nn.Linear(HOURS, 2 * HOURS), nn.GELU(), nn.Linear(2 * HOURS, HOURS))
        self.over_values = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x):
        x = x + self.over_hours(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_values(self.norm2(x))


class FillIn(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.enter, self.leave = nn.Linear(2 * VALUES, size), nn.Linear(size, VALUES)
        self.blocks = nn.Sequential(MixerBlock(size), MixerBlock(size))

    def forward(self, values, known):
        return self.leave(self.blocks(self.enter(torch.cat([values * known, known], 2))))


def main():
    meter = Meter(__doc__)
    net = FillIn().to(meter.device)
    compiled = torch.compile(net, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    hours = torch.randn(20, BATCH, HOURS, VALUES, device=meter.device).cumsum(2) / 5
    step_number = 0

    def step():
        nonlocal step_number
        step_number += 1
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (0.5 + 0.5 * math.cos(step_number / 500))
        values = hours[step_number % len(hours)]
        share = 0.1 + 0.4 * (step_number % 7) / 7
        known = (torch.rand_like(values) > share).float()
        filled = compiled(values, known)
        loss = F.mse_loss(filled * (1 - known), values * (1 - known))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(step)
    while meter.going_on():
        step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
