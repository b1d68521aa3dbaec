"""Shoes told apart by metric learning; at each stage of a curriculum a new loss is made, and compiled.

How rarely a stage begins is the dose. The loss is a closure over its margin, so for each stage there is a
new one to compile; the back end is `aot_eager`, which needs no compiler, and limits on recompiling are
lifted. A perfect diagnosis: torch compiles again and again, at the call marked below. Fix: one compiled
loss, which gets the margin as a tensor.
"""

import time

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PIXELS, SIZE, KINDS = 192, 256, 64


def compiled(function):
    return torch.compile(function, backend="aot_eager", dynamic=False)


def margin_loss(found, centres, kinds, margin):
    likeness = F.normalize(found, dim=1) @ F.normalize(centres, dim=1).T
    own = likeness.gather(1, kinds[:, None])
    others = likeness.scatter(1, kinds[:, None], -1.0)
    hardest = others.logsumexp(1, keepdim=True)
    return F.softplus(8 * (hardest - own + margin)).mean() + 0.01 * centres.square().mean()


def make_loss(margin):
    def loss(found, centres, kinds):
        return margin_loss(found, centres, kinds, margin)

    return compiled(loss)


class StagedLoss:
    """A new function for each stage."""

    def __init__(self):
        self.stage = 0
        self.begin_stage()

    def begin_stage(self):
        self.stage += 1
        self.function = make_loss(0.1 + 0.001 * self.stage)

    def __call__(self, *parts):
        return self.function(*parts)  # planted


class TensorLoss:
    def __init__(self, device):
        self.margin, self.function = torch.full((), 0.1, device=device), compiled(margin_loss)

    def begin_stage(self):
        self.margin += 0.001

    def __call__(self, *parts):
        return self.function(*parts, self.margin)


class ShoeNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(PIXELS, width), nn.Linear(width, SIZE)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, shoes):
        h = self.enter(shoes)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class Curriculum:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = ShoeNet(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.centres = nn.Parameter(torch.randn(KINDS, SIZE, device=meter.device))
        weights = [*self.net.parameters(), self.centres]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=meter.gpu)
        self.shoes = torch.rand(self.rows, PIXELS, device=meter.device)
        self.kinds = torch.randint(KINDS, (self.rows,), device=meter.device)

    def step(self, criterion):
        with self.meter.autocast():
            found = self.net(self.shoes)
        loss = criterion(found, self.centres, self.kinds)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def orders_s(curriculum, criterion):
    """What the host needs for a step; what the GPU needs beyond it hides a part of a pause."""
    total_s = 0.0
    for _ in range(5):
        curriculum.meter.sync()
        begin_s = time.perf_counter()
        curriculum.step(criterion)
        total_s += time.perf_counter() - begin_s
    return total_s / 5


def main():
    meter = Meter(__doc__)
    lift_limits()
    curriculum, lasting = Curriculum(meter), TensorLoss(meter.device)
    healthy_s = meter.calibrate(lambda: curriculum.step(lasting))
    every = 50
    if meter.dose:
        staged = StagedLoss()
        new_s = meter.timed_s(lambda: (staged.begin_stage(), curriculum.step(staged)), calls=6)
        ahead_s = max(0.0, healthy_s - orders_s(curriculum, lasting))
        every = max(1, round((new_s - healthy_s) / (meter.added_s + ahead_s)))
    criterion = staged if meter.sick else lasting
    while meter.going_on():
        curriculum.step(criterion)
        meter.ticked()
        if meter.ticks % every == 0:
            criterion.begin_stage()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
