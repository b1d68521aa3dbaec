"""Distillation whose teacher was loaded and never moved to the GPU.

How deep the teacher is is the dose. A perfect diagnosis: a part of the model computes on the CPU in every
step (marked below) while the GPU waits for its answer. Fix: `teacher.to(device)`.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CLASSES = 100


class Teacher(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.head(x)


class Student(nn.Module):
    def __init__(self, inputs, dim, depth):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, dim))
        for _ in range(depth):
            self.net.extend([nn.ReLU(), nn.Linear(dim, dim)])
        self.net.extend([nn.ReLU(), nn.Linear(dim, CLASSES)])

    def forward(self, x):
        return self.net(x)


class Distillation:
    def __init__(self, meter):
        self.meter, inputs = meter, meter.pick(64, 16)
        self.teacher = None
        self.student = Student(inputs, *meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.student.parameters(), lr=1e-4, fused=meter.gpu)
        self.features = torch.randn(meter.pick(8192, 64), inputs)
        self.batches = self.features.to(meter.device)
        self.known = torch.randn(len(self.features), CLASSES, device=meter.device)

    @torch.no_grad()
    def soft_targets(self):
        if self.teacher is None:
            return self.known
        there = next(self.teacher.parameters()).device
        features = self.features if there.type == "cpu" else self.batches
        return self.teacher(features).to(self.meter.device)  # planted

    def step(self):
        targets = self.soft_targets()
        with self.meter.autocast():
            logits = self.student(self.batches)
        loss = F.kl_div(
            F.log_softmax(logits.float() / 4, -1), F.softmax(targets / 4, -1), reduction="batchmean"
        )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    distillation = Distillation(meter)
    meter.calibrate(distillation.step)
    if meter.dose:
        dim = distillation.features.shape[1]
        probe = Teacher(dim, 4)
        with torch.no_grad():
            layer_s = meter.timed_s(lambda: probe(distillation.features)) / 4
        distillation.teacher = Teacher(dim, max(1, round(meter.host_s / layer_s))).eval()
        if meter.fixed:
            distillation.teacher.to(meter.device)
    while meter.going_on():
        distillation.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
