"""A forecaster of sales with early stopping: the best loss so far is kept by Python's `min`, in every step.

`min` asks which is smaller, and that waits for the GPU; the calendar of the next windows is then made while
it has nothing to do. Doses 1 to 3 cost about 23, 38 and 44 %. A perfect diagnosis names the hidden wait,
marked below. Fix: `torch.minimum`, and patience looked at every 200 steps.
"""

import datetime

import numpy as np
import torch
from stopwatch import Meter
from torch import nn

SHARES, HISTORY, HORIZON, CALENDAR = (0.0, 0.3, 0.6, 0.8), 336, 48, 6
FIRST = datetime.datetime(2019, 1, 1)


class Calendar:
    """Features of the hours to forecast, for some shops."""

    def __init__(self, shops):
        self.shops, self.start, self.rng = shops, 0, np.random.default_rng(0)
        self.features = np.zeros((4096, CALENDAR), np.float32)

    def next(self):
        self.start = (self.start + HORIZON) % 40_000
        for shop in range(self.shops):
            moment = FIRST + datetime.timedelta(hours=self.start + 7 * shop)
            row = self.features[shop % len(self.features)]
            row[0], row[1] = moment.hour / 24, moment.weekday() / 7
            row[2], row[3] = moment.day / 31, moment.month / 12
            row[4] = float(moment.weekday() >= 5)
        self.features[:, 5] = self.rng.random(len(self.features), dtype=np.float32)
        return torch.from_numpy(self.features)


class Stack(nn.Module):
    """One block of N-BEATS: it explains a part of the past, and foresees with it."""

    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(HISTORY + CALENDAR, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, HISTORY + HORIZON),
        )  # fmt: skip

    def forward(self, past, calendar):
        return self.net(torch.cat([past, calendar], -1)).split([HISTORY, HORIZON], -1)


class Forecaster(nn.Module):
    def __init__(self, width, stacks):
        super().__init__()
        self.stacks = nn.ModuleList(Stack(width) for _ in range(stacks))

    def forward(self, past, calendar):
        total = 0.0
        for stack in self.stacks:
            explained, ahead = stack(past, calendar)
            past, total = past - explained, total + ahead
        return total


class EarlyStopping:
    def __init__(self, patience):
        self.best, self.patience = torch.tensor(float("inf")), patience

    def look(self, loss):
        self.best = min(loss, self.best)  # planted

    def note(self, loss):
        self.best = torch.minimum(loss, self.best)


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 64)
    model = Forecaster(*meter.pick((4096, 3), (32, 1))).to(meter.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=meter.gpu)
    sales = torch.rand(rows, HISTORY + HORIZON, device=meter.device)
    calendar, stopping = Calendar(0), EarlyStopping(patience=10_000)
    stopping.best = stopping.best.to(meter.device)

    def step():
        known = calendar.next()
        known = (known.pin_memory() if meter.gpu else known).to(meter.device, non_blocking=True)
        known = known.repeat(2, 1)[:rows]
        with meter.autocast():
            ahead = model(sales[:, :HISTORY], known)
        loss = nn.functional.smooth_l1_loss(ahead.float(), sales[:, HISTORY:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    meter.calibrate(step)
    calendar.shops = 2000
    shop_s = meter.timed_s(calendar.next) / 2000
    calendar.shops = round(SHARES[meter.dose] * meter.healthy_s / shop_s)
    keep = stopping.look if meter.sick else stopping.note
    while meter.going_on():
        keep(step())
        meter.ticked()
        if meter.ticks % 200 == 0 and stopping.best.item() < 0:
            break
    meter.report(excess=True)


if __name__ == "__main__":
    main()
