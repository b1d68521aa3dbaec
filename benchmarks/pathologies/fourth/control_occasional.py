"""Healthy control: distillation with the things every training does now and then.

Tempting: a little Python for each step, a checkpoint and a short evaluation once in some hundred steps, all
of it some hundredths of the time. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import tempfile
from collections import Counter, deque
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CLASSES, FEATURES = 100, 128


def mlp(width, depth):
    layers = [nn.Linear(FEATURES, width), nn.GELU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


class History:
    """What was seen of late, in plain Python."""

    def __init__(self):
        self.recent, self.classes = deque(maxlen=200), Counter()

    def note(self, step):
        self.recent.append(step % 17)
        self.classes.update(n % CLASSES for n in range(step % 50, step % 50 + 100))
        return sum(self.recent) / len(self.recent)


class Distillation:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 256)
        self.teacher = mlp(*meter.pick((4096, 3), (128, 2))).to(meter.device).eval()
        self.student = mlp(*meter.pick((3072, 8), (128, 3))).to(meter.device)
        self.optimizer = torch.optim.SGD(self.student.parameters(), 1e-3, momentum=0.9, foreach=True)
        self.pool = torch.randn(8 * self.rows, FEATURES, device=meter.device)

    def batch(self):
        rows = torch.randint(len(self.pool), (self.rows,), device=self.meter.device)
        return self.pool[rows]

    def step(self):
        x = self.batch()
        with self.meter.autocast():
            with torch.no_grad():
                soft = self.teacher(x)
            guess = self.student(x)
        loss = F.cross_entropy(guess.float() / 3, (soft.float() / 3).softmax(-1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def agreement(self):
        self.student.eval()
        with self.meter.autocast():
            x = self.batch()
            same = (self.student(x).argmax(1) == self.teacher(x).argmax(1)).float().mean()
        self.student.train()
        return same.item()


def main():
    meter = Meter(__doc__)
    distillation, history, agreements = Distillation(meter), History(), []
    meter.calibrate(distillation.step)
    every = max(100, round(3.0 / meter.healthy_s))
    with tempfile.TemporaryDirectory() as folder:
        while meter.going_on():
            distillation.step()
            history.note(meter.ticks)
            meter.ticked()
            if meter.ticks % every == every // 2:
                agreements.append(distillation.agreement())
            if meter.ticks % (2 * every) == every:
                head = distillation.student[-1].state_dict()
                torch.save({"step": meter.ticks, "head": head}, Path(folder, "head.pt"))
        meter.report()


if __name__ == "__main__":
    main()
