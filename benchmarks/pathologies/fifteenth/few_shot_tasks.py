"""Curves of many families, and a net that is to fit a new one after few steps; it learns by Reptile.

A family's examples are an epoch of the loader, which starts its worker again for each family. How short
an epoch is, is the dose. A perfect diagnosis: workers are restarted at every epoch's edge (at the loader
or where it is gone through, both marked). Fix: a worker that stays.
"""

from dataclasses import dataclass

import numpy as np
import torch
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

POINTS, SHOTS = 10, 128


@dataclass
class Options:
    inner_lr: float = 0.02
    outer_rate: float = 0.1
    hidden: int = 560
    inner_steps: int = 500


class SineFamilies(Dataset):
    def __init__(self, count):
        self.count, self.rng = count, np.random.default_rng(0)
        self.x = self.rng.uniform(-5, 5, (4096, POINTS)).astype(np.float32)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = self.x[index % 4096]
        return x, np.sin(x + 0.1 * (index % 17))


class FamilySampler:
    """Draws which examples an epoch consists of."""

    def __init__(self, count):
        self.count, self.family = count, 0

    def __len__(self):
        return self.count

    def __iter__(self):
        self.family += 1
        for number in range(self.count):
            yield self.family * 31 + number


class Reptile:
    def __init__(self, options, device):
        self.options, self.device = options, device
        hidden = options.hidden
        self.net = nn.Sequential(
            nn.Linear(POINTS, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, POINTS),
        ).to(device)
        self.slow = [param.detach().clone() for param in self.net.parameters()]

    def inner_step(self, x, y):
        loss = (self.net(x.to(self.device)) - y.to(self.device)).square().mean()
        slopes = torch.autograd.grad(loss, list(self.net.parameters()))
        with torch.no_grad():
            torch._foreach_add_(list(self.net.parameters()), slopes, alpha=-self.options.inner_lr)

    @torch.no_grad()
    def outer_step(self):
        torch._foreach_lerp_(self.slow, list(self.net.parameters()), self.options.outer_rate)
        torch._foreach_copy_(list(self.net.parameters()), self.slow)


def families(loader):
    """Each family's batches, and when it is over."""
    while True:
        yield from loader  # planted
        yield None


def main():
    meter, options = Meter(__doc__), Options()
    learner = Reptile(options, meter.device)
    meter.calibrate(lambda: learner.inner_step(torch.rand(SHOTS, POINTS), torch.rand(SHOTS, POINTS)))
    if meter.dose:
        probe = DataLoader(SineFamilies(10**6), SHOTS, sampler=FamilySampler(3 * SHOTS), num_workers=1)

        def whole():
            for batch in probe:
                learner.inner_step(*batch)

        edge_s = meter.timed_s(whole, calls=6) - 3 * meter.healthy_s
        options.inner_steps = max(2, round(edge_s / meter.added_s))
    sampler = FamilySampler(options.inner_steps * SHOTS)
    kept = {"persistent_workers": True} if not meter.sick else {}
    loader = DataLoader(SineFamilies(10**6), SHOTS, sampler=sampler, num_workers=1, **kept)  # planted
    stream = families(loader)
    learner.inner_step(*next(stream))
    while meter.going_on():
        batch = next(stream)
        if batch is None:
            learner.outer_step()
            continue
        learner.inner_step(*batch)
        meter.ticked()
    meter.report(excess=True)
    stream.close()


if __name__ == "__main__":
    main()
