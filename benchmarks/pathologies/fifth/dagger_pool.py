"""Imitation by DAgger: in a pool of processes a small student drives, corrected by a planner; then it learns.

How long a drive is is the dose. A perfect diagnosis: while the pool drives, the GPU waits, and while the GPU
learns, the pool waits (the call marked below). Fix: the next drives are begun before the update, with the
student as it is.
"""

import multiprocessing

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LOOK, PEDALS, HIDDEN, PLANS = 10, 2, 24, 12


def planned(look, rng):
    """The planner tries some pedals and takes the best."""
    tries = rng.uniform(-1, 1, (PLANS, PEDALS))
    ends = np.tanh(look[:PEDALS] + tries)
    return tries[np.square(ends).sum(1).argmin()]


def drive(task):
    seed, steps, (enter, leave) = task
    rng, look = np.random.default_rng(seed), np.zeros(LOOK)
    road = rng.standard_normal((LOOK + PEDALS, LOOK)) * 0.3
    looks, wanted = np.zeros((steps, LOOK), np.float32), np.zeros((steps, PEDALS), np.float32)
    for n in range(steps):
        looks[n], wanted[n] = look, planned(look, rng)
        done = np.tanh(np.tanh(look @ enter) @ leave)
        look = np.tanh(np.concatenate([look, done]) @ road + 0.05 * rng.standard_normal(LOOK))
    return looks, wanted


class Teacher(nn.Module):
    """A large model of what the planner would do; the student is distilled from it."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(LOOK, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, PEDALS)

    def forward(self, look):
        h = self.enter(look)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class DAgger:
    def __init__(self, meter, pool, processes):
        self.meter, self.pool, self.processes, self.round = meter, pool, processes, 0
        self.teacher = Teacher(*meter.pick((4096, 5), (208, 4))).to(meter.device)
        self.student = nn.Sequential(nn.Linear(LOOK, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, PEDALS), nn.Tanh())
        self.student.to(meter.device)
        weights = [*self.teacher.parameters(), *self.student.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        rows = meter.pick(8192, 256)
        self.looks = torch.randn(rows, LOOK, device=meter.device)
        self.wanted = torch.randn(rows, PEDALS, device=meter.device)

    def tasks(self, steps):
        self.round += 1
        weights = [self.student[n].weight.detach().cpu().numpy().T for n in (0, 2)]
        return [(self.round * self.processes + n, steps, weights) for n in range(self.processes)]

    def add(self, drives):
        for kept, new in zip((self.looks, self.wanted), zip(*drives, strict=True), strict=True):
            new = torch.from_numpy(np.concatenate(new)[: len(kept)])
            kept[: len(new)] = new.to(self.meter.device)

    def update(self):
        with self.meter.autocast():
            taught = self.teacher(self.looks)
        loss = F.mse_loss(taught, self.wanted) + F.mse_loss(self.student(self.looks), taught.detach())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def in_turns(self, steps):
        while self.meter.going_on():
            drives = self.pool.map(drive, self.tasks(steps))  # planted
            self.add(drives)
            self.update()
            self.meter.ticked()

    def side_by_side(self, steps):
        coming = self.pool.map_async(drive, self.tasks(steps))
        while self.meter.going_on():
            drives = coming.get()
            coming = self.pool.map_async(drive, self.tasks(steps))
            self.add(drives)
            self.update()
            self.meter.ticked()


def main():
    meter = Meter(__doc__)
    processes = meter.pick(4, 1)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        dagger = DAgger(meter, pool, processes)
        meter.calibrate(dagger.update)
        there_s = meter.timed_s(lambda: pool.map(drive, dagger.tasks(1)), calls=10)
        long_s = meter.timed_s(lambda: pool.map(drive, dagger.tasks(201)), calls=3)
        steps = max(2, round((meter.added_s - there_s) * 200 / max(1e-6, long_s - there_s)))
        (dagger.in_turns if meter.sick else dagger.side_by_side)(steps)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
