"""Moths without labels, by Barlow Twins: what two views say is correlated, carefully, in full precision.

The product is outside autocast and takes `float()`, with TF32 off. How many rows it is of is the dose. A
perfect diagnosis: matrix products without tensor cores (marked below). Fix: the correlation in bfloat16.
"""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SCALES, ROOM = 256, 4


class CrossCorrelation:
    """Of centred rows; the weight of what is off the diagonal is small."""

    def __init__(self, meter, careful):
        self.meter, self.careful = meter, careful

    def around(self):
        return nullcontext() if self.careful else self.meter.autocast()

    def __call__(self, one, two):
        if self.careful:
            one, two = one.float(), two.float()
        one, two = (part - part.mean(0) for part in (one, two))
        with self.around():
            likeness = one.T @ two / len(one)  # planted
        likeness = likeness.float()
        own = likeness.diagonal()
        return (1 - own).square().mean() + 0.005 * (likeness.square().mean() - own.square().mean())


class Projector(nn.Module):
    def __init__(self, width, depth, size):
        super().__init__()
        self.enter, self.leave = nn.Linear(SCALES, width), nn.Linear(width, size)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, scales):
        h = self.enter(scales)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h)


class Twins:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(4096, 32)
        width, depth, self.size = meter.pick((4096, 5, 6144), (64, 2, 64))
        self.net = Projector(width, depth, self.size).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.scales = torch.rand(self.rows, SCALES, device=meter.device)
        self.correlated = meter.pick(128, 8)

    def step(self, correlation):
        views = self.scales.repeat(2, 1)
        with self.meter.autocast():
            one, two = self.net(views + 0.1 * torch.randn_like(views)).chunk(2)
        chosen = slice(0, self.correlated)
        loss = correlation(one[chosen], two[chosen]) + 1e-4 * one.float().square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def row_s(twins, correlation, rows=1024):
    one, two = torch.randn(2, rows, twins.size, device=twins.meter.device, requires_grad=True)
    few = max(2, rows // 8)
    many_s = twins.meter.timed_s(lambda: correlation(one, two).backward(retain_graph=True), calls=6)
    few_s = twins.meter.timed_s(
        lambda: correlation(one[:few], two[:few]).backward(retain_graph=True), calls=6
    )
    return max(1e-8, (many_s - few_s) / (rows - few))


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    twins = Twins(meter)
    quick, careful = (CrossCorrelation(meter, careful) for careful in (False, True))
    meter.calibrate(lambda: twins.step(quick))
    if meter.dose:
        gain_s = max(1e-8, row_s(twins, careful) - row_s(twins, quick)) if meter.gpu else 1e-3
        twins.correlated = min(twins.rows, max(8, round(meter.added_s / gain_s)))
    correlation = careful if meter.sick else quick
    while meter.going_on():
        twins.step(correlation)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
