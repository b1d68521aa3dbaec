"""Two faults: a home-grown environment stepped on the training's thread, and a replay made of Python lists.

About two thirds of the injected time are the environment's, one third the lists'. A perfect diagnosis names
both: first the serial environment (`Pendulums.advance`, first marked line), then the slow line that makes
lists into tensors (second). Fix: a cheap environment in NumPy, and a replay of tensors on the device.
"""

import math
import random

import numpy as np
import torch
from meter import Meter
from torch import nn


class Pendulums:
    """A row of pendulums, moved one by one."""

    def __init__(self, count=8):
        self.angle, self.speed, self.substeps = [0.1 * n for n in range(count)], [0.0] * count, 20

    def advance(self, torque):
        for _ in range(self.substeps):
            for n, angle in enumerate(self.angle):
                self.speed[n] += 0.002 * (torque - math.sin(angle) - 0.1 * self.speed[n])
                self.angle[n] = angle + 0.002 * self.speed[n]
        return [*self.angle, *self.speed], -sum(map(abs, self.angle))


class QuickPendulums(Pendulums):
    def advance(self, torque):
        angle, speed = np.array(self.angle), np.array(self.speed)
        speed += 0.05 * (torque - np.sin(angle) - 0.1 * speed)
        self.angle, self.speed = (angle + 0.05 * speed).tolist(), speed.tolist()
        return [*self.angle, *self.speed], -float(np.abs(angle).sum())


def critic(width, depth, device):
    layers = [nn.Linear(16, width), nn.SiLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1)).to(device)


def main():
    meter = Meter(__doc__)
    net, rows = critic(*meter.pick((4096, 6), (128, 2)), meter.device), meter.pick(16384, 256)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)

    def learn(states, paid):
        chosen = torch.randint(len(states), (rows,), device=meter.device)
        with meter.autocast():
            loss = (net(states[chosen]).squeeze(1) - paid[chosen]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    kept = [([random.gauss(0, 1) for _ in range(16)], random.random()) for _ in range(5000)]
    states = torch.tensor([state for state, _ in kept], device=meter.device)
    paid = torch.tensor([reward for _, reward in kept], device=meter.device)
    meter.calibrate(lambda: learn(states, paid))
    world = Pendulums() if meter.sick else QuickPendulums()
    if meter.sick:
        twenty_s = meter.timed_s(lambda: world.advance(0.1))
        world.substeps = max(1, round(20 * 2 / 3 * meter.added_s / twenty_s))
    all_s = meter.timed_s(lambda: torch.tensor([state for state, _ in kept]))
    size = max(8, round(len(kept) / 3 * meter.added_s / all_s))
    while meter.going_on():
        with torch.no_grad():
            torque = net(states[:1]).tanh().item()
        with meter.injecting():
            state, reward = world.advance(torque)  # planted
        kept[meter.ticks % len(kept)] = (state, reward)
        if meter.sick:
            with meter.injecting():
                some = random.choices(kept, k=size)
                seen = torch.tensor([state for state, _ in some])  # planted
            learn(seen.to(meter.device), torch.tensor([pay for _, pay in some]).to(meter.device))
        else:
            learn(states, paid)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
