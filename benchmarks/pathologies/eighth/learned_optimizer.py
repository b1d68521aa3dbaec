"""An optimizer that is itself learned: for each of many small problems it is rolled out for some updates.

How many problems a step has is the dose. A perfect diagnosis: launch-bound, as each problem is rolled out by
itself in hundreds of tiny kernels (marked below). Fix: the problems are stacked and rolled out together.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ROWS, WEIGHTS, TRUST = 16, 8, 3


class UpdateRule(nn.Module):
    """Looks at the gradient and its average of a weight, and says by how much to move."""

    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(2, 8), nn.Linear(8, 1)

    def forward(self, grad, average):
        seen = torch.stack([grad, average], -1)
        return 0.1 * self.out(torch.tanh(self.hidden(seen)))[..., 0]


def gradient(table, target, weights):
    off = table @ weights[..., None] - target[..., None]
    return (table.mT @ off)[..., 0] / ROWS, off.square().mean()


def roll_out(rule, table, target, weights):
    """Works for one problem and for a stack of them."""
    average, total = torch.zeros_like(weights), 0.0
    for _ in range(TRUST):
        grad, loss = gradient(table, target, weights)
        average = 0.9 * average + 0.1 * grad
        weights = weights - rule(grad, average)
        total = total + loss
    return total


class MetaLearner(nn.Module):
    """Where to begin is guessed from what a problem looks like."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.start = nn.Linear(ROWS, width), nn.Linear(width, WEIGHTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.rule = UpdateRule()

    def forward(self, targets):
        h = self.enter(targets)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.start(h).float()


class MetaTraining:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.learner = MetaLearner(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.learner.parameters(), 1e-5, fused=meter.gpu)
        self.tables = torch.randn(rows, ROWS, WEIGHTS, device=meter.device)
        self.targets = torch.randn(rows, ROWS, device=meter.device)
        self.problems = 4

    def each(self, starts):
        losses = []
        for n in range(self.problems):
            losses.append(roll_out(self.learner.rule, self.tables[n], self.targets[n], starts[n]))  # planted
        return torch.stack(losses).mean()

    def stacked(self, starts):
        some = slice(self.problems)
        return roll_out(self.learner.rule, self.tables[some], self.targets[some], starts[some])

    def step(self, outer_loss):
        with self.meter.autocast():
            starts = self.learner(self.targets)
        loss = outer_loss(starts) + 0.01 * starts.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def problem_s(training):
    training.problems = 12
    starts = torch.zeros(12, WEIGHTS, device=training.meter.device, requires_grad=True)
    return training.meter.timed_s(lambda: training.each(starts).backward(), calls=5) / 12


def main():
    meter = Meter(__doc__)
    training = MetaTraining(meter)
    meter.calibrate(lambda: training.step(training.stacked))
    if meter.dose:
        training.problems = max(2, round(meter.host_s / problem_s(training)))
    outer_loss = training.each if meter.sick else training.stacked
    while meter.going_on():
        training.step(outer_loss)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
