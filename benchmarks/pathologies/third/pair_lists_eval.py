"""Two faults: features in Python lists, made tensors in every step, and evaluation every 5 steps.

Each takes three quarters of a dose. A perfect diagnosis names both: the conversion on the training thread
(first marked line) and evaluation much too often (second). Fix: tensors made once, evaluation every 500
steps.
"""

import random

import torch
from stopwatch import Meter
from torch import nn

PART, EVAL_EVERY = 0.75, 5


class Mixer(nn.Module):
    def __init__(self, inputs, dim, depth):
        super().__init__()
        self.enter = nn.Linear(inputs, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.leave = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.enter(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + nn.functional.gelu(layer(norm(x)))
        return self.leave(x)


class ClickTraining:
    def __init__(self, meter):
        self.meter, self.features, self.rows = meter, 16, meter.pick(8192, 64)
        self.model = Mixer(self.features, *meter.pick((3072, 8), (48, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=meter.gpu)
        self.clicked = torch.randint(0, 2, (self.rows, 1), device=meter.device).float()
        self.held_out = torch.rand(self.rows, self.features, device=meter.device)
        self.eval_batches, self.eval_every = 1, 500

    def loss(self, x):
        with self.meter.autocast():
            guess = self.model(x)
        return nn.functional.binary_cross_entropy_with_logits(guess.float(), self.clicked)

    def step(self, x):
        loss = self.loss(x)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        total = torch.zeros((), device=self.meter.device)
        for _ in range(self.eval_batches):
            total += self.loss(self.held_out)
        self.model.train()
        return float(total) / self.eval_batches


class ListFeatures:
    """Logs of some days, a list of lists each; a sample is their mean."""

    def __init__(self, rows, features, days, device):
        self.logs = [[[random.random() for _ in range(features)] for _ in range(rows)] for _ in range(days)]
        self.device = device

    def batch(self):
        return torch.stack([torch.tensor(log) for log in self.logs]).mean(0).to(self.device)  # planted


def main():
    meter = Meter(__doc__)
    training = ClickTraining(meter)
    healthy_s = meter.calibrate(lambda: training.step(training.held_out))
    part_s = PART * meter.added_s
    few = ListFeatures(training.rows // 16, training.features, 4, meter.device)
    day_s = 16 * meter.timed_s(few.batch) / 4
    convert_s = part_s + healthy_s if meter.gpu and meter.dose else part_s
    rows = training.rows
    source = ListFeatures(rows, training.features, max(1, round(convert_s / day_s)), meter.device)
    if meter.sick:
        training.eval_every = EVAL_EVERY
        training.eval_batches = max(1, round(EVAL_EVERY * part_s / meter.timed_s(training.evaluate)))
    ready = source.batch()
    while meter.going_on():
        training.step(source.batch() if meter.sick else ready)
        meter.ticked()
        if meter.ticks % training.eval_every == 0:
            training.evaluate()  # planted
    meter.report(excess=True)


if __name__ == "__main__":
    main()
