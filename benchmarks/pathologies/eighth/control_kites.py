"""Healthy control: kites flown at random in plain Python, beside a large model of how they fly.

Tempting: an environment of Python objects stepped by the training thread, one after another; but the GPU has
a step's work queued by then, and nobody reads from it. A perfect diagnosis: healthy, nothing to mend. The
dose is taken and does nothing; there is no planted line.
"""

import math
import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE = 4


class Kite:
    def __init__(self, number):
        self.random = random.Random(number)
        self.reset()

    def reset(self):
        self.angle, self.height, self.turn, self.age = 0.0, 1.0, 0.0, 0
        return self.state()

    def state(self):
        return [self.angle, self.height, self.turn, self.age / 200]

    def step(self, pull):
        wind = 1.0 + 0.2 * self.random.gauss(0.0, 1.0)
        self.turn = 0.9 * self.turn + 0.1 * pull * wind
        self.angle += 0.05 * self.turn
        self.height += 0.02 * (math.cos(self.angle) * wind - 0.9)
        self.age += 1
        return self.state(), self.height < 0.0 or self.age >= 200


class FlightModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(STATE + 1, width), nn.Linear(width, STATE)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, steps):
        h = self.enter(steps)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class Beach:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.kites = [Kite(n) for n in range(meter.pick(500, 4))]
        self.model = FlightModel(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-5, fused=meter.gpu)
        self.replay = torch.zeros(rows, 2 * STATE + 1, device=meter.device)
        self.at = 0

    def fly(self):
        rows = []
        for kite in self.kites:
            before, pull = kite.state(), kite.random.uniform(-1, 1)
            after, over = kite.step(pull)
            rows.append([*before, pull, *after])
            if over:
                kite.reset()
        return torch.tensor(rows)

    def tick(self):
        new = self.fly()
        new = new.pin_memory() if self.meter.gpu else new
        self.replay[self.at : self.at + len(new)].copy_(new, non_blocking=True)
        self.at = (self.at + len(new)) % (len(self.replay) - len(new))
        before, after = self.replay.split((STATE + 1, STATE), 1)
        with self.meter.autocast():
            ahead = self.model(before)
        loss = F.mse_loss(ahead, after)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    beach = Beach(meter)
    meter.calibrate(beach.tick)
    while meter.going_on():
        beach.tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
