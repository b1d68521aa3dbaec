"""Gradient accumulation over ragged micro-batches, with `empty_cache()` called "against fragmentation".

Every call gives the memory back to the driver, and the next micro-batch, of another size, asks for it
again. A perfect diagnosis: time in the allocator (freeing and asking the driver for memory, which also
waits for the GPU), because of the call at the line marked below. Fix: without the call.
"""

import random

import torch
from meter import Meter
from torch import nn

MICRO = 4


class Wide(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.nn.functional.silu(layer(x))
        return x


class Accumulator:
    def __init__(self, meter):
        self.meter, self.often, self.owed = meter, 0.0, 0.0
        self.width = meter.pick(4096, 96)
        self.model = Wide(self.width, meter.pick(6, 3)).to(meter.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.sizes = random.Random(0)

    def micro_batch(self):
        rows = self.sizes.randrange(*self.meter.pick((3000, 5000), (60, 100)))
        x = torch.randn(rows, self.width, device=self.meter.device)
        with self.meter.autocast():
            loss = (self.model(x) - x.roll(1, 1)).square().mean() / MICRO
        loss.backward()

    def tidy(self):
        """`often` times a micro-batch, on average."""
        self.owed += self.often
        while self.owed >= 1:
            self.owed -= 1
            torch.cuda.empty_cache()  # planted

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        for _ in range(MICRO):
            self.micro_batch()
            self.tidy()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    trainer = Accumulator(meter)
    healthy_s = meter.calibrate(trainer.step)
    if meter.sick:
        trainer.often = 1.0
        tidied_s = meter.timed_s(trainer.step, calls=6)
        one_s = max((tidied_s - healthy_s) / MICRO, 0.01 * healthy_s)
        # More than one call for a micro-batch would find nothing to free.
        trainer.often = min(1.0, meter.added_s / (MICRO * one_s))
    while meter.going_on():
        trainer.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
