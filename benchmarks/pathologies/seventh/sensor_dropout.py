"""A robot's compiled encoder of many sensors; for robustness some of them fail, and others every few steps.

How many steps it takes is the dose. Sensors that fail are missing in the dictionary, and the compiler meets
new keys; the back end is `aot_eager`, which needs no compiler, and limits on recompiling are lifted. A
perfect diagnosis: torch compiles again and again, at the call marked below. Fix: those that fail are masked.
"""

import random

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SENSORS, READING, MOTORS = 14, 6, 7


class Encoder(nn.Module):
    """One small layer for each sensor; what they say is added up."""

    def __init__(self, size):
        super().__init__()
        self.hear = nn.ModuleDict({f"sensor_{n}": nn.Linear(READING, size) for n in range(SENSORS)})

    def forward(self, readings, works=None):
        heard = 0.0
        for name, reading in readings.items():
            said = torch.tanh(self.hear[name](reading))
            heard = heard + (said if works is None else said * works[name])
        return heard


class Behaviour(nn.Module):
    def __init__(self, size, width, depth):
        super().__init__()
        self.encoder = Encoder(size)
        self.encoder.compile(backend="aot_eager", dynamic=False)
        self.enter, self.leave = nn.Linear(size, width), nn.Linear(width, MOTORS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, readings, works=None):
        h = self.enter(self.encoder(readings, works))  # planted
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class Failures:
    """Which sensors work; never the same twice in a run."""

    def __init__(self, device):
        self.random, self.device, self.before = random.Random(0), device, set()

    def draw(self):
        while True:
            working = tuple(n for n in range(SENSORS) if self.random.random() < 0.7)
            if len(working) > 1 and working not in self.before:
                self.before.add(working)
                return [f"sensor_{n}" for n in working]

    def mask(self, working):
        return {
            f"sensor_{n}": torch.full((), float(f"sensor_{n}" in working), device=self.device)
            for n in range(SENSORS)
        }


class Cloning:
    """Behavioural cloning of somebody who steers."""

    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.net = Behaviour(*meter.pick((256, 4096, 5), (32, 288, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.failures = Failures(meter.device)
        self.all = {f"sensor_{n}": torch.randn(rows, READING, device=meter.device) for n in range(SENSORS)}
        self.shown = torch.randn(rows, MOTORS, device=meter.device)
        self.fail()

    def fail(self):
        working = self.failures.draw()
        if self.meter.sick:
            self.given = {name: self.all[name] for name in working}, None
        else:
            self.given = self.all, self.failures.mask(working)

    def step(self):
        with self.meter.autocast():
            steered = self.net(*self.given)
        loss = F.mse_loss(steered, self.shown)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def main():
    meter = Meter(__doc__)
    lift_limits()
    cloning, steps = Cloning(meter), 40
    meter.calibrate(cloning.step)
    if meter.sick:
        again_s = meter.timed_s(lambda: (cloning.fail(), cloning.step()), calls=2) - meter.healthy_s
        steps = max(1, round(again_s / meter.added_s))
    while meter.going_on():
        if meter.ticks % steps == 0:
            cloning.fail()
        cloning.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
