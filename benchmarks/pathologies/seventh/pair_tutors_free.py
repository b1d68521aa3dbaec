"""Two faults: between its phases a training calls the helper that everybody copies, against full memory.

Each takes three quarters of a dose. A perfect diagnosis names both: an allocator that gives the GPU's memory
back to ask for it again (first marked line), and pauses for the garbage collector, which has many objects to
look through (second). Fix: the helper is not called. Needs a GPU.
"""

import gc
import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, FEATURES = 0.75, 48


class Lesson:
    """Lessons know what they build on."""

    def __init__(self, number, before):
        self.number, self.before, self.marks, self.next = number, before, [number % 7], []
        if before is not None:
            before.next.append(self)


class Curriculum:
    def __init__(self, count):
        self.lessons = []
        for n in range(count):
            self.lessons.append(Lesson(n, self.lessons[n // 2] if n else None))


def free(collecting):
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # planted
    if collecting:
        gc.collect()  # planted


class Tower(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(FEATURES, width), nn.Linear(width, FEATURES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        h = self.enter(x)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Tutoring:
    """A pupil learns what a tutor says."""

    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.tutor = Tower(*meter.pick((4096, 3), (64, 2))).to(meter.device).requires_grad_(False)
        self.pupil = Tower(*meter.pick((4096, 4), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.pupil.parameters(), 1e-5, fused=meter.gpu)
        self.x = torch.randn(rows, FEATURES, device=meter.device)

    def step(self):
        with self.meter.autocast():
            with torch.no_grad():
                said = self.tutor(self.x)
            learned = self.pupil(self.x)
        loss = F.mse_loss(learned, said)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def freed(training):
    training.step()
    free(collecting=False)


def curriculum_for(meter, wanted_s):
    """How many lessons make a collection last that long, and how often it must be if few are enough."""
    bare_s = meter.timed_s(gc.collect)
    probe = Curriculum(50_000)
    each_s = max(1e-8, (meter.timed_s(gc.collect) - bare_s) / len(probe.lessons))
    del probe
    every = max(1, math.ceil(1.5 * bare_s / wanted_s))
    return every, Curriculum(max(1000, min(2_000_000, round((every * wanted_s - bare_s) / each_s))))


def main():
    meter = Meter(__doc__)
    training = Tutoring(meter)
    healthy_s = meter.calibrate(training.step)
    part_s, often, seldom, curriculum = PART * meter.added_s, 0, 0, None
    if meter.sick:
        seldom, curriculum = curriculum_for(meter, part_s)
        fresh_s = max(1e-6, meter.timed_s(lambda: freed(training), calls=6) - healthy_s)
        often = max(1, round(fresh_s / part_s)) if meter.gpu else seldom
    while meter.going_on():
        training.step()
        meter.ticked()
        collecting = bool(seldom) and meter.ticks % seldom == 0
        if collecting or (often and meter.ticks % often == 0):
            free(collecting)
    meter.report(excess=True)
    del curriculum


if __name__ == "__main__":
    main()
