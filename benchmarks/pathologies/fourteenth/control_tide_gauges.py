"""Healthy control: tides from gauges along a coast, foretold by a plain recurrent net.

All of it lies in one tensor, and a batch is a slice. A perfect diagnosis: healthy, nothing to mend. The
dose is taken and does nothing; there is no planted line.
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

GAUGES, HOURS, AHEAD, BATCH = 10, 36, 6, 32


def make_tides(count):
    hours = torch.arange(count)[:, None] * torch.linspace(0.9, 1.1, GAUGES)
    return torch.sin(2 * math.pi * hours / 12.4) + 0.4 * torch.sin(2 * math.pi * hours / 25.8)


class ElmanTides(nn.Module):
    """Written out by hand, so that the state may be normed in between."""

    def __init__(self, size=288):
        super().__init__()
        self.size = size
        self.inward, self.again = nn.Linear(GAUGES, size), nn.Linear(size, size, bias=False)
        self.norm, self.out = nn.LayerNorm(size), nn.Linear(size, AHEAD * GAUGES)

    def forward(self, hours):
        state = hours.new_zeros(hours.shape[0], self.size)
        for inward in self.inward(hours).unbind(1):
            state = torch.tanh(self.norm(inward + self.again(state)))
        return self.out(state).unflatten(1, (AHEAD, GAUGES))


def windows(tides):
    begin = 0
    while True:
        begin = (begin + 7) % (len(tides) - BATCH - HOURS - AHEAD)
        rows = tides[begin : begin + BATCH + HOURS + AHEAD - 1].unfold(0, HOURS + AHEAD, 1).transpose(1, 2)
        yield rows[:, :HOURS], rows[:, HOURS:]


def main():
    meter = Meter(__doc__)
    tides, net = make_tides(6000).to(meter.device), ElmanTides().to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)
    pairs = windows(tides)

    def step():
        past, future = next(pairs)
        loss = F.smooth_l1_loss(net(past), future)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()

    meter.calibrate(step)
    while meter.going_on():
        step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
