"""Healthy control: gradient accumulation over eight micro-batches, clipping, an averaged copy of the weights.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import copy

import torch
from stopwatch import Meter
from torch import nn

MICRO_BATCHES = 8


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(dim),
            nn.Linear(dim, 4 * dim),
            nn.Linear(4 * dim, dim),
        )

    def forward(self, x):
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


class Trainer:
    def __init__(self, model, optimizer, meter):
        self.model, self.optimizer, self.meter = model, optimizer, meter
        self.average = copy.deepcopy(model).requires_grad_(False)

    def backward(self, rows):
        with self.meter.autocast():
            loss = nn.functional.mse_loss(self.model(rows), rows.flip(-1)) / MICRO_BATCHES
        loss.backward()

    def optimizer_step(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 0.001)

    def train_on(self, batch):
        for rows in batch.chunk(MICRO_BATCHES):
            self.backward(rows)
        self.optimizer_step()


def main():
    meter = Meter(__doc__)
    dim, depth, rows = meter.pick((2048, 4, 32768), (16, 1, 64))
    model = nn.Sequential(*(Expert(dim) for _ in range(depth))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=meter.gpu)
    trainer = Trainer(model, optimizer, meter)
    batches = [torch.randn(rows, dim, device=meter.device) for _ in range(4)]
    meter.calibrate(lambda: trainer.train_on(batches[0]))
    while meter.going_on():
        trainer.train_on(batches[meter.ticks % 4])
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
