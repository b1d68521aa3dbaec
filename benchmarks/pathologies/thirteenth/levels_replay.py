"""A climber learns on levels made by chance; those where it may still learn are shown again more often.

All levels are ranked in each step, by what was left to learn and for how long they were not shown: by a key
function, over a list of dataclasses. How many levels there are is the dose. A perfect diagnosis: hot lines of
Python on the training thread (any line marked below), for which the GPU waits. Fix: two arrays and NumPy.
"""

import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, beside_orders_s
from torch import nn

SEEN, HOLDS, SHOWN, STALE = 32, 6, 64, 0.1


@dataclass
class Level:
    number: int
    left: float
    shown: int = 0


class RankedLevels:
    def __init__(self, count):
        rng = random.Random(0)
        self.levels = [Level(number, rng.random()) for number in range(count)]

    def hope(self, level, now):
        long_ago = now - level.shown  # planted
        return (1 - STALE) * level.left + STALE * long_ago / (now + 1)  # planted

    def next_levels(self, now):
        ranked = sorted(self.levels, key=lambda level: self.hope(level, now), reverse=True)  # planted
        for level in ranked[:SHOWN]:
            level.shown, level.left = now, 0.98 * level.left
        return [level.number for level in ranked[:SHOWN]]


class ArrayLevels:
    def __init__(self, count):
        self.left, self.shown = np.random.default_rng(0).random(count), np.zeros(count)

    def next_levels(self, now):
        hope = (1 - STALE) * self.left + STALE * (now - self.shown) / (now + 1)
        best = np.argpartition(-hope, SHOWN)[:SHOWN]
        self.shown[best], self.left[best] = now, 0.98 * self.left[best]
        return best.tolist()


class Climber(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, HOLDS + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.leave(h).float().split((HOLDS, 1), 1)


class Training:
    """What was climbed of each level lies on the device."""

    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 192)
        self.net = Climber(*meter.pick((4096, 5), (192, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(512, self.rows // SHOWN, SEEN, device=meter.device)
        self.held = torch.randint(HOLDS, (self.rows,), device=meter.device)

    def step(self, numbers):
        numbers = torch.tensor(numbers).remainder_(len(self.seen)).to(self.meter.device, non_blocking=True)
        seen = self.seen[numbers].flatten(0, 1)
        with self.meter.autocast():
            wish, worth = self.net(seen)
        gain = seen.mean(1) - worth[:, 0]
        taken = F.log_softmax(wish, 1).gather(1, self.held[:, None])[:, 0]
        loss = gain.square().mean() - (taken * gain.detach()).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    training, count = Training(meter), 200
    quick = ArrayLevels(count)
    meter.calibrate(lambda: training.step(quick.next_levels(1)))
    if meter.dose:
        wanted_s = beside_orders_s(meter, lambda: training.step(range(SHOWN)), meter.host_s)
        probe = RankedLevels(2000)
        count = max(200, round(2000 * wanted_s / meter.timed_s(lambda: probe.next_levels(9), calls=10)))
    levels = (RankedLevels if meter.sick else ArrayLevels)(count)
    while meter.going_on():
        with meter.injecting():
            numbers = levels.next_levels(meter.ticks)
        training.step(numbers)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
