"""Two faults: kites of Python objects are flown by the training thread, and the pilot is examined often.

Each takes three quarters of a dose. A perfect diagnosis names both: an environment stepped on the training
thread (first marked line), and evaluations much too often (second). Fix: the line by NumPy; an examination
every two thousand steps.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SEEN, TUGS = 0.75, 5, 3


class Kite:
    """A kite on a line of beads, in a wind that turns."""

    def __init__(self, beads):
        self.beads = beads

    def reset(self):
        self.height, self.age = [0.1 * n for n in range(self.beads)], 0
        return self._seen()

    def pull(self, tug):
        wind = 1 + 0.3 * math.sin(0.1 * self.age)
        hung = self.height
        for n in range(1, self.beads - 1):
            hung[n] += 0.2 * (hung[n - 1] - 2 * hung[n] + hung[n + 1]) - 0.001
        hung[-1] += 0.02 * (wind - 0.1 * hung[-1] + 0.1 * (tug - 1))

    def step(self, tug):
        self.pull(tug)
        self.age += 1
        return self._seen(), -abs(self.height[-1] - 5.0), self.age >= 200

    def _seen(self):
        top = self.height[-1]
        return [top, self.height[self.beads // 2], math.sin(0.1 * self.age), top - self.height[-2], 1.0]


class QuickKite(Kite):
    def reset(self):
        super().reset()
        self.height = np.array(self.height)
        return self._seen()

    def pull(self, tug):
        wind = 1 + 0.3 * math.sin(0.1 * self.age)
        hung = self.height
        hung[1:-1] += 0.2 * (hung[:-2] - 2 * hung[1:-1] + hung[2:]) - 0.001
        hung[-1] += 0.02 * (wind - 0.1 * hung[-1] + 0.1 * (tug - 1))


class Pilot(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.tug = nn.Linear(SEEN, width), nn.Linear(width, TUGS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.tug(h).float()


class School:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 160)
        self.pilot = Pilot(*meter.pick((4096, 5), (288, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.pilot.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.rand(rows, SEEN, device=meter.device)
        self.tugs = torch.zeros(rows, dtype=torch.long, device=meter.device)
        self.flown = torch.rand(rows, device=meter.device)
        self.at = 0

    @torch.no_grad()
    def tug(self, seen):
        with self.meter.autocast():
            scores = self.pilot(torch.tensor([seen], dtype=torch.float32).to(self.meter.device))
        return int(torch.multinomial(scores.softmax(-1), 1))

    def note(self, seen, tug, reward):
        fresh = torch.tensor([*seen, float(tug), reward]).to(self.meter.device)
        self.seen[self.at], self.tugs[self.at] = fresh[:SEEN], fresh[SEEN].long()
        self.flown[self.at] = fresh[-1]
        self.at = (self.at + 1) % len(self.flown)

    def learn(self):
        with self.meter.autocast():
            scores = self.pilot(self.seen)
        likely = F.cross_entropy(scores, self.tugs, reduction="none")
        loss = (likely * (self.flown - self.flown.mean())).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.inference_mode()
    def examine(self, rounds=6):
        """How sure is the pilot in winds it has not seen?"""
        self.pilot.eval()
        sure = []
        for n in range(rounds):
            with self.meter.autocast():
                scores = self.pilot(self.seen.roll(n, 0) + 0.1 * n)
            sure.append(scores.softmax(-1).amax(1).mean())
        self.pilot.train()
        return torch.stack(sure).mean().item()


def beads_for(meter, wanted_s):
    times = []
    for beads in (20, 420):
        kite = Kite(beads)
        kite.reset()
        times.append(meter.timed_s(lambda k=kite: k.step(1), calls=20))
    return max(8, round(20 + (wanted_s - times[0]) * 400 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    school, calm = School(meter), Kite(8)
    seen = calm.reset()
    meter.calibrate(lambda: (school.note(seen, school.tug(seen), 0.0), school.learn()))
    part_s, beads, every, marks = PART * meter.added_s, 8, 2000, []
    if meter.dose:
        beads = beads_for(meter, part_s)
    if meter.sick:
        every = max(1, round(meter.timed_s(school.examine) / part_s))
    kite = (Kite if meter.sick else QuickKite)(beads)
    seen = kite.reset()
    while meter.going_on():
        tug = school.tug(seen)
        with meter.injecting():
            after, reward, over = kite.step(tug)  # planted
        school.note(seen, tug, float(reward))
        school.learn()
        seen = kite.reset() if over else after
        meter.ticked()
        if meter.ticks % every == 0:
            with meter.injecting():
                marks.append(school.examine())  # planted
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
