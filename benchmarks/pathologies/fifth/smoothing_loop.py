"""A forecaster of demand with learned exponential smoothing, written as the book says: one day after another.

How many days are smoothed is the dose. A perfect diagnosis: launch-bound, hundreds of small kernels from the
loop marked below, forward and backward, and the GPU waits for the next one. Fix: the same sum as one product
with a matrix of powers.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SERIES, KINDS, AHEAD = 64, 8, 14


class Smoothing(nn.Module):
    """Levels of all series, for some gains at once."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(-2, 1, KINDS))

    def day_by_day(self, demand):
        gain = self.gain.sigmoid()[:, None]
        level, levels = demand[:, 0].expand(KINDS, -1), []
        for day in demand.unbind(1):
            level = level + gain * (day - level)  # planted
            levels.append(level)
        return torch.stack(levels, -1)

    def at_once(self, demand):
        days = demand.shape[1]
        gain = self.gain.sigmoid()[:, None, None]
        day = torch.arange(days, device=demand.device)
        age = (day[None] - day[:, None]).clamp(min=0)
        weights = (gain * (1 - gain) ** age).triu()
        start = (1 - gain) ** (day + 1) * demand[:, :1]
        return torch.matmul(demand, weights) + start


class Deep(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(KINDS, width), nn.Linear(width, AHEAD)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, levels):
        h = self.enter(levels)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h)


class Forecast:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.smoothing = Smoothing().to(meter.device)
        self.deep = Deep(*meter.pick((4096, 5), (96, 2))).to(meter.device)
        weights = [*self.smoothing.parameters(), *self.deep.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.truth = torch.rand(self.rows, AHEAD, device=meter.device)
        self.days(8)

    def days(self, count):
        self.demand = torch.rand(SERIES, count, device=self.meter.device)

    def step(self, smooth):
        levels = smooth(self.demand).flatten(1).T
        levels = levels.repeat(-(-self.rows // len(levels)), 1)[: self.rows]
        with self.meter.autocast():
            ahead = self.deep(levels)
        loss = F.l1_loss(ahead.float(), self.truth)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def host_s_of_a_day(forecast):
    forecast.days(40)

    def alone():
        forecast.smoothing.day_by_day(forecast.demand).sum().backward()

    return forecast.meter.timed_s(alone, calls=6) / 40


def main():
    meter = Meter(__doc__)
    forecast = Forecast(meter)
    at_once = forecast.smoothing.at_once
    meter.calibrate(lambda: forecast.step(at_once))
    if meter.dose:
        forecast.days(max(8, round(meter.host_s / host_s_of_a_day(forecast))))
    smooth = forecast.smoothing.day_by_day if meter.sick else at_once
    while meter.going_on():
        forecast.step(smooth)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
