"""Trucks in a quarry learn where to go; they drive in processes that share an array with the learner.

A barrier says when to drive, and when all have arrived. How far they drive is the dose. A perfect diagnosis:
rollout and update take turns, as the learner waits at the barrier while the trucks drive, and they wait
while it learns (marked below). Fix: they drive the next round while the last one is learned.
"""

import multiprocessing
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, KEPT = 8, 48


@dataclass
class Shared:
    """What processes and learner have in common; `length` is how far to drive."""

    barrier: object
    length: object
    rows: object
    trucks: int

    @classmethod
    def among(cls, trucks):
        context = multiprocessing.get_context("fork")
        rows = context.RawArray("f", trucks * KEPT * SEEN)
        return cls(context.Barrier(trucks + 1), context.RawValue("i", KEPT), rows, trucks)

    def array(self):
        return np.frombuffer(self.rows, np.float32).reshape(self.trucks, KEPT, SEEN)


def truck(shared, number):
    rows, rng = shared.array()[number], random.Random(number)
    x, y, load, fuel = 0.0, 0.0, 0.0, 1.0
    while True:
        shared.barrier.wait()
        for n in range(shared.length.value):
            goal = (1.0, 0.5) if load < 0.5 else (0.0, 0.0)
            x += 0.05 * (goal[0] - x) + 0.01 * rng.gauss(0.0, 1.0)
            y += 0.05 * (goal[1] - y) + 0.01 * rng.gauss(0.0, 1.0)
            load = min(1.0, load + 0.02) if x > 0.9 else max(0.0, load - 0.01)
            fuel = 1.0 if x < 0.05 else max(0.0, fuel - 0.001)
            if n < KEPT:
                rows[n] = x, y, load, fuel, *goal, 1.0, n / KEPT
        shared.barrier.wait()


class Quarry:
    def __init__(self, trucks):
        context = multiprocessing.get_context("fork")
        self.shared, self.under_way = Shared.among(trucks), False
        self.processes = [
            context.Process(target=truck, args=(self.shared, n), daemon=True) for n in range(trucks)
        ]
        for process in self.processes:
            process.start()

    def copied(self):
        return self.shared.array().reshape(-1, SEEN).copy()

    def drive_and_wait(self):
        self.shared.barrier.wait()
        self.shared.barrier.wait()  # planted
        return self.copied()

    def drive_ahead(self):
        """What was driven while the learner was busy; the next round begins."""
        if not self.under_way:
            self.shared.barrier.wait()
            self.under_way = True
        self.shared.barrier.wait()
        driven = self.copied()
        self.shared.barrier.wait()
        return driven

    def close(self):
        for process in self.processes:
            process.terminate()
            process.join()


class Dispatcher(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, SEEN)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return seen + self.leave(h).float()


def length_taking(meter, quarry, wanted_s):
    times = []
    for length in (KEPT, KEPT + 1000):
        quarry.shared.length.value = length
        times.append(meter.timed_s(quarry.drive_and_wait, calls=8))
    return max(8, round(KEPT + (wanted_s - times[0]) * 1000 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    quarry, rows = Quarry(meter.pick(8, 1)), meter.pick(8192, 128)
    net = Dispatcher(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-5, fused=meter.gpu)
    replay = torch.rand(rows, SEEN, device=meter.device)

    def learn(driven):
        new = torch.from_numpy(driven)[:rows].to(meter.device)
        replay[: len(new)] = new
        with meter.autocast():
            ahead = net(replay)
        loss = F.smooth_l1_loss(ahead[:-1], replay[1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.sync()

    blank = np.zeros((quarry.shared.trucks * KEPT, SEEN), np.float32)
    meter.calibrate(lambda: learn(blank))
    quarry.shared.length.value = length_taking(meter, quarry, meter.added_s) if meter.dose else 8
    rollout = quarry.drive_and_wait if meter.sick else quarry.drive_ahead
    while meter.going_on():
        with meter.injecting():
            driven = rollout()
        learn(driven)
        meter.ticked()
    meter.report(excess=meter.gpu)
    quarry.close()


if __name__ == "__main__":
    main()
