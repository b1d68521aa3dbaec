"""REINFORCE in a home-grown warehouse simulator: a Python loop over robots, on the training's thread.

Not a Gymnasium environment, nothing is registered anywhere: a class with a `tick` method. A perfect
diagnosis: the GPU is idle while the simulator (`Warehouse.tick`, called at the line marked below) runs
serially on the training thread. Fix: all robots moved at once with NumPy.
"""

import math
import random

import numpy as np
import torch
from meter import Meter
from torch import nn, optim

FLOOR = 50.0


class Robot:
    def __init__(self):
        self.x, self.y, self.heading = random.uniform(0, FLOOR), random.uniform(0, FLOOR), 0.0

    def drive(self, turn):
        self.heading += 0.1 * turn
        self.x = min(FLOOR, max(0.0, self.x + math.cos(self.heading)))
        self.y = min(FLOOR, max(0.0, self.y + math.sin(self.heading)))
        return -math.hypot(self.x - FLOOR / 2, self.y - FLOOR / 2)


class Warehouse:
    def __init__(self, count):
        self.robots = [Robot() for _ in range(count)]

    def tick(self, turns):
        paid = sum(robot.drive(turn) for robot, turn in zip(self.robots, turns, strict=True))
        return self.view(), paid / len(self.robots)

    def view(self):
        return np.array([[robot.x, robot.y, robot.heading] for robot in self.robots], dtype=np.float32)


class FastWarehouse:
    def __init__(self, count):
        self.state = np.random.rand(count, 3).astype(np.float32) * (FLOOR, FLOOR, 0)

    def tick(self, turns):
        self.state[:, 2] += 0.1 * np.asarray(turns)
        heading = self.state[:, 2]
        self.state[:, :2] += np.stack((np.cos(heading), np.sin(heading)), 1)
        self.state[:, :2].clip(0, FLOOR, out=self.state[:, :2])
        return self.view(), -np.hypot(*(self.state[:, :2] - FLOOR / 2).T).mean()

    def view(self):
        return self.state.astype(np.float32)


class Learner:
    """A policy over the turn; learns from the last views with what was paid."""

    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(16384, 256)
        width = meter.pick(4096, 128)
        middle = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(meter.pick(6, 2))]
        self.policy = nn.Sequential(nn.Linear(3, width), *middle, nn.Linear(width, 1)).to(meter.device)
        self.optimizer = optim.SGD(self.policy.parameters(), lr=1e-6)

    @torch.no_grad()
    def turns(self, view):
        with self.meter.autocast():
            mean = self.policy(torch.from_numpy(view).to(self.meter.device)).float().squeeze(1)
        return (mean + torch.randn_like(mean)).tolist()

    def learn(self, view, paid):
        seen = torch.from_numpy(view).to(self.meter.device)
        seen = seen.repeat(-(-self.rows // len(seen)), 1)[: self.rows]
        with self.meter.autocast():
            mean = self.policy(seen / FLOOR).float()
        chosen = (mean + torch.randn_like(mean)).detach()
        loss = paid * (mean - chosen).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    learner = Learner(meter)
    meter.calibrate(lambda: learner.learn(np.ones((64, 3), np.float32), -1.0))
    some = Warehouse(1000)
    thousand_s = meter.timed_s(lambda: some.tick([0.1] * 1000))
    count = meter.pick(1000, 100)
    warehouse = Warehouse(count) if meter.sick else FastWarehouse(count)
    frame_skip = max(1, round(meter.added_s / (count * thousand_s / 1000)))
    view = warehouse.view()
    while meter.going_on():
        turns = learner.turns(view)
        with meter.injecting():
            for _ in range(frame_skip):
                view, paid = warehouse.tick(turns)  # planted
        learner.learn(view, float(paid))
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
