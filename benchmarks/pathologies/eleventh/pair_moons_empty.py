"""Two faults: moons are described by a frozen net on the CPU, and the allocator's cache is emptied.

Each takes three quarters of a dose. A perfect diagnosis names both: a part of the model on the CPU, for which
the GPU waits (first marked line), and memory given back to the driver again and again (second). Fix: the
frozen net on the GPU, and a cache that is left alone.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, CRATERS, SIZE = 0.75, 64, 128


class Describer(nn.Module):
    """Downloaded, frozen."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(CRATERS, 384), nn.GELU(), nn.Linear(384, SIZE))
        self.requires_grad_(False)

    def forward(self, moons):
        return self.layers(moons)  # planted


class Student(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(CRATERS, width), nn.Linear(width, SIZE)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, moons):
        h = self.enter(moons)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h).float()


class Distillation:
    def __init__(self, meter):
        self.meter, self.rows, self.described = meter, meter.pick(8192, 64), 32
        self.student = Student(*meter.pick((4096, 5), (128, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), 1e-5, fused=meter.gpu)
        moons = torch.rand(self.rows, CRATERS)
        self.moons = moons.pin_memory() if meter.gpu else moons
        self.moons_there = self.moons.to(meter.device)

    def describe(self, describer):
        """The first moons, by a net which may be anywhere."""
        here = next(describer.parameters()).device.type == "cpu"
        source = self.moons if here else self.moons_there
        with torch.no_grad():
            told = torch.cat([describer(part) for part in self.batches(source)])[: self.rows]
        told = told.pin_memory() if here and self.meter.gpu else told
        return told.to(self.meter.device, non_blocking=True)

    def batches(self, source):
        left = self.described
        while left > 0:
            yield source[:left]
            left -= len(source)

    def step(self, describer):
        told = self.describe(describer)
        with self.meter.autocast():
            guess = self.student(self.moons_there)
        loss = F.mse_loss(guess[: len(told)], told) + 1e-4 * guess.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Tidy:
    def __init__(self, every):
        self.every = every

    def now(self):
        torch.cuda.empty_cache()  # planted

    def after(self, step):
        if step % self.every == 0:
            self.now()


def moon_s(meter, distillation, describer):
    times = []
    for distillation.described in (256, 2304):
        times.append(meter.timed_s(lambda: distillation.describe(describer), calls=8))
    return max(1e-8, (times[1] - times[0]) / 2048)


def main():
    meter = Meter(__doc__)
    distillation, left_behind, moved = Distillation(meter), Describer(), Describer().to(meter.device)
    tidy = Tidy(10_000_000)
    meter.calibrate(lambda: distillation.step(moved))
    part_s = PART * meter.added_s
    if meter.sick and meter.gpu:
        fresh_s = meter.timed_s(lambda: (distillation.step(moved), tidy.now()), calls=6) - meter.healthy_s
        tidy.every = max(1, round(fresh_s / part_s))
    if meter.dose:
        each_s = moon_s(meter, distillation, left_behind)
        # The GPU still has the last step before it when the describer begins.
        wanted_s = meter.host_s - (1 - PART) * meter.added_s
        distillation.described = max(32, round(wanted_s / each_s))
    describer = left_behind if meter.sick else moved
    while meter.going_on():
        distillation.step(describer)
        meter.ticked()
        tidy.after(meter.ticks)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
