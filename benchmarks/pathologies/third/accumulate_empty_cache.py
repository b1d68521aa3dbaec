"""Gradient accumulation that empties the allocator's cache between micro-batches, out of fear of running out.

How often is the dose. A perfect diagnosis: memory is given back to the driver and asked for again all the
time (marked below). Fix: without that call. Needs a GPU.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

MICRO = 4


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.up, self.gate, self.down = (
            nn.Linear(dim, 2 * dim),
            nn.Linear(dim, 2 * dim),
            nn.Linear(2 * dim, dim),
        )

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Accumulating:
    def __init__(self, meter):
        self.meter, (dim, depth, rows) = meter, meter.pick((2048, 6, 2048), (32, 2, 16))
        self.model = nn.Sequential(*(GatedBlock(dim) for _ in range(depth))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=meter.gpu)
        self.rows = torch.randn(MICRO, rows, dim, device=meter.device)
        self.empty_every, self.micros = 0, 0

    def micro_batch(self, rows):
        with self.meter.autocast():
            loss = (self.model(rows) - rows.roll(1, -1)).square().mean() / MICRO
        loss.backward()
        self.micros += 1
        if self.empty_every and self.micros % self.empty_every == 0:
            torch.cuda.empty_cache()  # planted

    def step(self):
        for rows in self.rows:
            self.micro_batch(rows)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def main():
    meter = Meter(__doc__)
    training = Accumulating(meter)
    meter.calibrate(training.step)
    if meter.sick and meter.gpu:
        training.empty_every = 1
        each_s = (meter.timed_s(training.step) - meter.healthy_s) / MICRO
        training.empty_every = max(1, round(each_s * MICRO / meter.added_s))
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
