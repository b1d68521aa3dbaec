"""One trunk with a head for each of six tasks, and a report on all of them every few steps.

How often is the dose. A perfect diagnosis: evaluation takes too large a part of the time (the call marked
below). Fix: a report every two thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TASKS = {"age": 1, "sex": 2, "diagnosis": 24, "ward": 12, "stay": 1, "return": 2}
FIELDS = 80


class Trunk(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(FIELDS, width), nn.LayerNorm(width))
        self.body = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(depth)
        )
        self.heads = nn.ModuleDict({task: nn.Linear(width, size) for task, size in TASKS.items()})

    def forward(self, rows, tasks=tuple(TASKS)):
        h = self.enter(rows)
        for block in self.body:
            h = h + block(h)
        return {task: self.heads[task](h).float() for task in tasks}


def task_loss(task, guess, truth):
    return F.mse_loss(guess[:, 0], truth.float()) if TASKS[task] == 1 else F.cross_entropy(guess, truth)


class Patients:
    """Rows on the device, as a generator of batches."""

    def __init__(self, batch, batches, device):
        self.rows = torch.randn(batches, batch, FIELDS, device=device)
        self.truth = [
            {task: torch.randint(max(2, n), (batch,), device=device) for task, n in TASKS.items()}
            for _ in range(batches)
        ]

    def __iter__(self):
        yield from zip(self.rows, self.truth, strict=True)


class MultiTask:
    def __init__(self, meter):
        self.meter, (batch, width, depth) = meter, meter.pick((8192, 3072, 3), (64, 128, 2))
        self.model = Trunk(width, depth).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-5, fused=meter.gpu)
        self.train_set = Patients(batch, 4, meter.device)
        self.held_out = Patients(batch, 5, meter.device)
        self.reports = []

    def train_step(self, rows, truth):
        with self.meter.autocast():
            guesses = self.model(rows)
        loss = sum(task_loss(task, guess, truth[task]) for task, guess in guesses.items())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def report(self):
        """Task by task, as each has a metric of its own."""
        scores = {}
        self.model.eval()
        with torch.inference_mode(), self.meter.autocast():
            for task in TASKS:
                losses = [
                    task_loss(task, self.model(rows, (task,))[task], truth[task])
                    for rows, truth in self.held_out
                ]
                scores[task] = torch.stack(losses).mean()
        self.model.train()
        self.reports.append({task: float(score) for task, score in scores.items()})

    def fit(self, every):
        while True:
            for rows, truth in self.train_set:
                if not self.meter.going_on():
                    return
                self.train_step(rows, truth)
                self.meter.ticked()
                if self.meter.ticks % every == 0:
                    self.report()  # planted


def main():
    meter = Meter(__doc__)
    training = MultiTask(meter)
    meter.calibrate(lambda: training.train_step(*next(iter(training.train_set))))
    every = 2000
    if meter.sick:
        every = max(1, round(meter.timed_s(training.report) / meter.added_s))
    training.fit(every)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
