"""Two faults: drilling rigs are simulated one by one by the training thread, and the net is tested often.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped serially while the
GPU waits (first marked line), and evaluations much too often (second). Fix: all rigs as rows of one array,
and a test every two thousand steps.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SEEN, FORCES, RARELY = 0.75, 6, 3, 2000


class Rig:
    """A bit on a string that twists; rock gets harder with depth."""

    def __init__(self, number, substeps):
        self.substeps, self.depth, self.twist, self.spin, self.wear = substeps, 0.01 * number, 0.0, 1.0, 0.0

    def seen(self):
        return [self.depth, self.twist, self.spin, self.wear, math.sin(self.depth), 1.0]

    def step(self, force):
        before = self.depth
        for _ in range(self.substeps):
            hard = 1.0 + 0.5 * math.sin(3.0 * self.depth)
            self.twist += 0.01 * (1.0 - self.spin)
            self.spin = max(0.0, self.spin + 0.01 * (self.twist - 0.2 * hard * (1 + force) * self.spin))
            self.depth += 0.0001 * self.spin * (1 + force) / hard
            self.wear = min(1.0, self.wear + 1e-6 * hard)
        return self.seen(), self.depth - before


class Field:
    def __init__(self, rigs, substeps):
        self.rigs = [Rig(n, substeps) for n in range(rigs)]
        self.now = np.array([rig.seen() for rig in self.rigs], np.float32)

    def step(self, forces):
        results = [rig.step(force) for rig, force in zip(self.rigs, forces.tolist(), strict=True)]  # planted
        self.now = np.array([seen for seen, _ in results], np.float32)
        return np.array([gain for _, gain in results], np.float32)


class FieldOfRows:
    def __init__(self, rigs, substeps):
        self.substeps = substeps
        self.depth, self.twist = 0.01 * np.arange(rigs), np.zeros(rigs)
        self.spin = np.ones(rigs)
        self.now = self.seen(rigs)

    def seen(self, rigs):
        rest = [np.sin(self.depth), np.ones(rigs)]
        return np.stack([self.depth, self.twist, self.spin, np.zeros(rigs), *rest], 1).astype(np.float32)

    def step(self, forces):
        before = self.depth.copy()
        for _ in range(self.substeps):
            hard = 1.0 + 0.5 * np.sin(3.0 * self.depth)
            self.twist += 0.01 * (1.0 - self.spin)
            self.spin += 0.01 * (self.twist - 0.2 * hard * (1 + forces) * self.spin)
            self.depth += 0.0001 * self.spin * (1 + forces) / hard
        self.now = self.seen(len(before))
        return (self.depth - before).astype(np.float32)


class Driller(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, FORCES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Learner:
    def __init__(self, meter, rigs):
        self.meter, self.rigs, self.rows = meter, rigs, meter.pick(8192, 160)
        self.net = Driller(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN + 2, device=meter.device)
        self.held_out = torch.rand(3 * self.rows, SEEN + 2, device=meter.device)

    @torch.no_grad()
    def act(self, seen):
        with self.meter.autocast():
            worth = self.net(torch.from_numpy(seen).to(self.meter.device))
        return worth.argmax(1).cpu().numpy()

    def loss(self, rows):
        with self.meter.autocast():
            worth = self.net(rows[:, :SEEN])
        chosen = rows[:, SEEN, None].long().clamp(0, FORCES - 1)
        return F.smooth_l1_loss(worth.gather(1, chosen)[:, 0], rows[:, SEEN + 1])

    def learn(self, seen, forces, gains):
        new = torch.from_numpy(np.column_stack([seen, forces, gains]).astype(np.float32))
        self.past = torch.cat([self.past[self.rigs :], new.to(self.meter.device)])
        loss = self.loss(self.past)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        losses = [self.loss(rows) for rows in self.held_out.split(self.rows)]
        self.net.train()
        return torch.stack(losses).mean().item()


def substeps_taking(meter, rigs, wanted_s):
    forces, times = np.ones(rigs), []
    for substeps in (1, 31):
        field = Field(rigs, substeps)
        times.append(meter.timed_s(lambda f=field: f.step(forces), calls=20))
    return max(1, round(1 + (wanted_s - times[0]) * 30 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    rigs = meter.pick(64, 16)
    learner = Learner(meter, rigs)

    def tick(field):
        seen = field.now
        forces = learner.act(seen)
        with meter.injecting():
            gains = field.step(forces)
        learner.learn(seen, forces, gains)

    rows = FieldOfRows(rigs, 1)
    meter.calibrate(lambda: tick(rows))
    part_s, every = PART * meter.added_s, RARELY
    substeps = substeps_taking(meter, rigs, part_s) if meter.dose else 1
    if meter.sick:
        every = max(1, round(meter.timed_s(learner.evaluate) / part_s))
    field = (Field if meter.sick else FieldOfRows)(rigs, substeps)
    meter.injected_s = 0.0
    while meter.going_on():
        tick(field)
        meter.ticked()
        if meter.ticks % every == 0:
            with meter.injecting():
                learner.evaluate()  # planted
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
