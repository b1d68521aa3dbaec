"""Simulated drones imitate an expert; a guard of the trainer looks for numbers that are none, in every step.

The guard waits for the GPU, and the next commands are then planned while it has nothing to do. Doses 1 to 3
cost about 17, 33 and 46 %. A perfect diagnosis names the wait, marked below. Fix: a look now and then.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SHARES = (0.0, 0.2, 0.5, 0.85)
SEEN, COMMANDS = 24, 4


class Guard:
    """A step with a gradient that is not finite is left out."""

    def __init__(self, every):
        self.every, self.skipped, self.count = every, 0, 0

    def passes(self, loss):
        self.count += 1
        if self.count % self.every:
            return True
        fine = bool(loss.isfinite())  # planted
        self.skipped += not fine
        return fine


class Planner:
    """What the expert would like to fly, smoothed in rounds by NumPy."""

    def __init__(self, rows):
        self.rng, self.rows, self.rounds = np.random.default_rng(0), rows, 0
        self.way = self.rng.random((256, COMMANDS), np.float32)

    def plan(self):
        way = self.way
        for _ in range(self.rounds):
            way = 0.5 * way + 0.25 * (np.roll(way, 1, 0) + np.roll(way, -1, 0))
        return torch.from_numpy(np.resize(way, (self.rows, COMMANDS)))


class Pilot(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.command = nn.Linear(SEEN, width), nn.Linear(width, COMMANDS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.command(h).float()


class Trainer:
    def __init__(self, meter, guard):
        self.meter, self.guard, rows = meter, guard, meter.pick(8192, 256)
        self.pilot = Pilot(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.pilot.parameters(), 1e-5, fused=meter.gpu)
        self.seen, self.planner = torch.randn(rows, SEEN, device=meter.device), Planner(rows)

    def backward(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.guard.passes(loss.detach()):
            self.optimizer.step()

    def step(self):
        plan = self.planner.plan()
        plan = (plan.pin_memory() if self.meter.gpu else plan).to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            flown = self.pilot(self.seen)
        self.backward(F.smooth_l1_loss(flown, plan))


def main():
    meter = Meter(__doc__)
    trainer = Trainer(meter, Guard(every=500))
    planner = trainer.planner
    meter.calibrate(trainer.step)
    plain_s = meter.timed_s(planner.plan, calls=10)
    planner.rounds = 40
    round_s = (meter.timed_s(planner.plan, calls=10) - plain_s) / 40
    planner.rounds = max(0, round((SHARES[meter.dose] * meter.healthy_s - plain_s) / round_s))
    trainer.guard.every = 1 if meter.sick else 500
    while meter.going_on():
        trainer.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
