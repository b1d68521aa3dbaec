"""Two faults: faces are straightened by the training thread, and all tasks are evaluated too often.

Each takes three quarters of a dose. A perfect diagnosis names both: loading in the training thread (first
marked line), and evaluations (second). Fix: a worker, and an evaluation every few thousand steps.
"""

import random
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, SIDE, BATCH, ACCUMULATED, RARELY, STORED = 0.75, 32, 8, 2, 4000, 20
TASKS = {"age": 8, "glasses": 2, "pose": 5}


class Faces(Dataset):
    """Turned so that both eyes are level, then made small."""

    def __init__(self, side):
        noise, self.rng = np.random.default_rng(0), random.Random(0)
        self.faces = [
            Image.fromarray(noise.integers(0, 255, (side, side, 3), np.uint8)) for _ in range(STORED)
        ]

    def __len__(self):
        return 60_000

    def __getitem__(self, index):
        face = self.faces[index % STORED].rotate(self.rng.uniform(-15, 15), Image.BILINEAR)
        face = face.resize((SIDE, SIDE), Image.BICUBIC)
        labels = [index * 7 % count for count in TASKS.values()]
        return np.asarray(face, np.float32).transpose(2, 0, 1) / 255, np.array(labels)


class MultiTaskNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.heads = nn.ModuleDict({task: nn.Linear(8 * width, count) for task, count in TASKS.items()})
        self.uncertainty = nn.ParameterDict({task: nn.Parameter(torch.zeros(())) for task in TASKS})

    def forward(self, faces):
        h = self.trunk(faces)
        return {task: head(h) for task, head in self.heads.items()}

    def loss(self, faces, labels):
        total = 0.0
        for number, (task, logits) in enumerate(self(faces).items()):
            weight = self.uncertainty[task]
            total = total + (-weight).exp() * F.cross_entropy(logits, labels[:, number]) + weight
        return total


class MultiTaskTraining:
    def __init__(self, device):
        self.device, self.net = device, MultiTaskNet().to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-3)
        self.held_out = [
            (torch.rand(BATCH, 3, SIDE, SIDE, device=device), torch.zeros(BATCH, len(TASKS)).long())
            for _ in range(16)
        ]

    def step(self, micro_batches):
        self.optimizer.zero_grad()
        for faces, labels in micro_batches:
            loss = self.net.loss(faces.to(self.device), labels.to(self.device))
            (loss / ACCUMULATED).backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        right = dict.fromkeys(TASKS, 0)
        for faces, labels in self.held_out:
            for number, (task, logits) in enumerate(self.net(faces).items()):
                right[task] += int((logits.argmax(1).cpu() == labels[:, number]).sum())
        self.net.train()
        return {task: count / (len(self.held_out) * BATCH) for task, count in right.items()}


def main():
    meter = Meter(__doc__)
    training = MultiTaskTraining(meter.device)
    meter.calibrate(lambda: training.step(training.held_out[:ACCUMULATED]))
    part_s, area, eval_every = PART * meter.added_s, SIDE**2, RARELY
    if meter.dose:
        straighten = lambda area: partial(Faces.__getitem__, Faces(round(area**0.5)), 3)  # noqa: E731
        area = amount_taking(meter, straighten, area, 160**2, part_s / BATCH / ACCUMULATED)
    if meter.sick:
        eval_every = max(1, round(meter.timed_s(training.evaluate, calls=5) / part_s))
    faces = Faces(round(area**0.5))
    batches = iter(DataLoader(faces, BATCH, shuffle=True, num_workers=0 if meter.sick else 1))
    training.step([next(batches)])
    while meter.going_on():
        with meter.injecting():
            micro_batches = [next(batches) for _ in range(ACCUMULATED)]  # planted
        training.step(micro_batches)
        meter.ticked()
        if meter.ticks % eval_every == 0:
            with meter.injecting():
                training.evaluate()  # planted
    meter.report()
    del batches


if __name__ == "__main__":
    main()
