"""Rockets learn to land; a `ProcessPoolExecutor` flies them, and then the net learns from all flights.

How long a flight is is the dose. A perfect diagnosis: rollout and update take turns; while the rockets fly,
the GPU waits, and while it learns, they wait (marked below). Fix: the next flights are on their way while
the last ones are learned from.
"""

import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, KEPT = 6, 64


def fly(task):
    """One rocket, by the gains it is given; the last states of its flight are kept."""
    seed, gains, length = task
    rng = random.Random(seed)
    height, speed, fuel, path = 1.0, 0.0, 1.0, []
    for n in range(length):
        thrust = max(0.0, min(1.0, gains[0] * (0.5 - height) - gains[1] * speed)) if fuel > 0 else 0.0
        speed += 0.01 * (thrust - 0.5) + 0.001 * rng.gauss(0.0, 1.0)
        height, fuel = max(0.0, height + 0.01 * speed), fuel - 0.0001 * thrust
        path.append((height, speed, fuel, thrust, n / length, 1.0))
    return np.array(path[-KEPT:], np.float32)


class LandingCrew:
    def __init__(self, rockets):
        context = multiprocessing.get_context("fork")
        self.pool = ProcessPoolExecutor(rockets, mp_context=context)
        self.rockets, self.length, self.number, self.coming = rockets, KEPT, 0, None
        self.fly_and_wait()

    def tasks(self):
        self.number += 1
        return [(self.number * 100 + n, (1.0, 0.5), self.length) for n in range(self.rockets)]

    def fly_and_wait(self):
        return np.concatenate(list(self.pool.map(fly, self.tasks())))  # planted

    def fly_ahead(self):
        coming = self.coming or self.pool.map(fly, self.tasks())
        flights = np.concatenate(list(coming))
        self.coming = self.pool.map(fly, self.tasks())
        return flights

    def close(self):
        self.pool.shutdown(cancel_futures=True)


class Lander(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(STATE, width), nn.Linear(width, STATE)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, states):
        h = self.enter(states)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return states + self.leave(h).float()


def length_for(meter, crew, wanted_s):
    times = []
    for crew.length in (KEPT, KEPT + 1000):
        times.append(meter.timed_s(crew.fly_and_wait, calls=6))
    return max(KEPT // 4, round(KEPT + (wanted_s - times[0]) * 1000 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    crew, rows = LandingCrew(meter.pick(8, 1)), meter.pick(8192, 128)
    lander = Lander(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.Adam(lander.parameters(), 1e-5, fused=meter.gpu)
    replay = torch.rand(rows, STATE, device=meter.device)

    def learn(flights):
        new = torch.from_numpy(flights)[:rows].to(meter.device)
        replay[: len(new)] = new
        with meter.autocast():
            ahead = lander(replay)
        loss = F.mse_loss(ahead[:-1], replay[1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.sync()

    blank = np.zeros((crew.rockets * KEPT, STATE), np.float32)
    meter.calibrate(lambda: learn(blank))
    crew.length = length_for(meter, crew, meter.added_s) if meter.dose else KEPT // 4
    rollout = crew.fly_and_wait if meter.sick else crew.fly_ahead
    while meter.going_on():
        with meter.injecting():
            flights = rollout()
        learn(flights)
        meter.ticked()
    meter.report(excess=meter.gpu)
    crew.close()


if __name__ == "__main__":
    main()
