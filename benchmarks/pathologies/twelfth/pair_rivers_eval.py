"""Two faults: how much water runs off is a loop over hours, and all catchments are tested much too often.

Each takes three quarters of a dose. A perfect diagnosis names both: launch-bound, by some tiny kernels for
each hour, forward and backward (first marked line), and evaluations (second). Fix: what is left of each
hour's rain later, as one small matrix, and a test every few thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FEATURES, GAUGED, PART, RARELY = 48, 32, 0.75, 5000


class Reservoir(nn.Module):
    """A part of what is in it runs off each hour."""

    def __init__(self):
        super().__init__()
        self.slow = nn.Parameter(torch.tensor(1.0))

    def by_hours(self, rain):
        stays = self.slow.sigmoid()
        level, runs = torch.zeros_like(rain[0]), []
        for fallen in rain:
            level = stays * level + fallen  # planted
            runs.append(level)
        return (1 - stays) * torch.stack(runs)

    def by_matrix(self, rain):
        stays, hour = self.slow.sigmoid(), torch.arange(len(rain), device=rain.device)
        later = hour[:, None] - hour[None, :]
        left = torch.where(later >= 0, stays ** later.clamp(min=0), 0.0)
        return (1 - stays) * (left @ rain)

    def forward(self, rain, hourly):
        return self.by_hours(rain) if hourly else self.by_matrix(rain)


class CatchmentNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(FEATURES, width), nn.Linear(width, FEATURES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.reservoir, self.rain = Reservoir(), nn.Linear(FEATURES, 1)

    def forward(self, catchments, hourly=False, hours=0):
        h = self.enter(catchments)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        ahead = self.leave(h).float()
        if not hours:
            return ahead, None
        rain = self.rain(ahead[: hours * GAUGED]).float().view(hours, GAUGED)
        return ahead, self.reservoir(rain, hourly)


class Hydrology:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(24_576, 4096)
        self.net = CatchmentNet(*meter.pick((2304, 5), (24, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.catchments = torch.rand(rows, FEATURES, device=meter.device)
        self.hours, self.tests, self.every, self.best = 4, meter.pick(12, 3), RARELY, 1e9

    def step(self, hourly):
        with self.meter.autocast():
            ahead, runs = self.net(self.catchments, hourly, self.hours)
        loss = F.mse_loss(ahead, self.catchments.roll(1, 0)) + 0.01 * runs.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        off = []
        for number in range(self.tests):
            held_out = self.catchments.roll(number, 1)
            with self.meter.autocast():
                ahead, _ = self.net(held_out)
            off.append(F.l1_loss(ahead, held_out))
        self.best = min(self.best, torch.stack(off).mean().item())
        self.net.train()

    def fit(self, hourly):
        while self.meter.going_on():
            self.step(hourly)
            self.meter.ticked()
            if self.meter.ticks % self.every == 0:
                self.evaluate()  # planted


def hour_s(meter):
    """What the host needs to order one more, forward and backward."""
    reservoir = Reservoir().to(meter.device)
    rain = torch.zeros(64, GAUGED, device=meter.device, requires_grad=True)
    return meter.timed_s(lambda: reservoir(rain, hourly=True).sum().backward(), calls=6) / 64


def main():
    meter = Meter(__doc__)
    hydrology = Hydrology(meter)
    most = len(hydrology.catchments) // GAUGED
    meter.calibrate(lambda: hydrology.step(hourly=False))
    part_s = PART * meter.added_s
    if meter.dose:
        wanted_s = meter.host_s - (1 - PART) * meter.added_s
        hydrology.hours = min(most, max(4, round(wanted_s / hour_s(meter))))
    if meter.sick:
        hydrology.every = max(1, round(meter.timed_s(hydrology.evaluate) / part_s))
    hydrology.fit(hourly=meter.sick)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
