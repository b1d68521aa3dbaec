"""Prices of hotel nights; what a city or a brand usually costs is learned from the bookings as they come.

How many bookings come in a step is the dose. A perfect diagnosis: a loop of Python over rows and columns, on
the training thread (either line marked below), for which the GPU waits. Fix: sums of a step's bookings, by
NumPy.
"""

from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

COLUMNS = ("city", "brand", "month", "stars", "agent", "board")
KINDS, USUAL = 50, 100.0


class Bookings:
    """A stream; one row is a code for each column, and a price."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.codes = rng.integers(0, KINDS, (100_000, len(COLUMNS)))
        self.prices = rng.random(100_000) * 200
        self.at = 0

    def take(self, count):
        self.at = (self.at + count) % (100_000 - count)
        rows = slice(self.at, self.at + count)
        return self.codes[rows], self.prices[rows]


class RunningMean:
    __slots__ = ("count", "total")

    def __init__(self):
        self.total, self.count = 10 * USUAL, 10

    def value(self):
        return self.total / self.count

    def add(self, price):
        self.total += price
        self.count += 1


class OrderedEncoder:
    """Row by row, so that no price explains itself."""

    def __init__(self):
        self.means = {name: defaultdict(RunningMean) for name in COLUMNS}

    def encode(self, codes, prices):
        encoded = []
        for row, price in zip(codes.tolist(), prices.tolist(), strict=True):
            means = [self.means[name][code] for name, code in zip(COLUMNS, row, strict=True)]  # planted
            encoded.append([mean.value() for mean in means])  # planted
            for mean in means:
                mean.add(price)
        return np.array(encoded, np.float32)


class BlockEncoder:
    """All rows of a step by what was known before it."""

    def __init__(self):
        self.totals = np.full((len(COLUMNS), KINDS), 10 * USUAL)
        self.counts = np.full((len(COLUMNS), KINDS), 10.0)
        self.column = np.arange(len(COLUMNS))

    def encode(self, codes, prices):
        known = (self.totals / self.counts)[self.column, codes].astype(np.float32)
        for column in self.column:
            self.totals[column] += np.bincount(codes[:, column], prices, KINDS)
            self.counts[column] += np.bincount(codes[:, column], minlength=KINDS)
        return known


class PriceNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.price = nn.Linear(len(COLUMNS), width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, encoded):
        h = self.enter(encoded)
        for layer in self.body:
            h = h + F.mish(layer(h))
        return self.price(h)[:, 0].float()


class Forecast:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 96)
        self.net = PriceNet(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.encoded = torch.randn(self.rows, len(COLUMNS), device=meter.device)
        self.prices = torch.rand(self.rows, device=meter.device)

    def learn(self, encoded, prices):
        """The newest rows take the place of the first ones."""
        fresh = torch.from_numpy(encoded[: self.rows] / USUAL - 1), torch.from_numpy(prices[: self.rows])
        for old, new in zip((self.encoded, self.prices), fresh, strict=True):
            new = new.float().pin_memory() if self.meter.gpu else new.float()
            old[: len(new)].copy_(new, non_blocking=True)
        with self.meter.autocast():
            guess = self.net(self.encoded)
        loss = F.smooth_l1_loss(guess, self.prices)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    forecast, bookings = Forecast(meter), Bookings()
    slow, quick = OrderedEncoder(), BlockEncoder()

    def known(encoder, count):
        codes, prices = bookings.take(count)
        return encoder.encode(codes, prices), prices

    meter.calibrate(lambda: forecast.learn(*known(quick, 16)))
    count = 16
    if meter.dose:
        count = max(16, round(1000 * meter.host_s / meter.timed_s(lambda: known(slow, 1000), calls=8)))
    encoder = slow if meter.sick else quick
    while meter.going_on():
        with meter.injecting():
            batch = known(encoder, count)
        forecast.learn(*batch)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
