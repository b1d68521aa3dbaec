"""Houses, trees and ground in point clouds; one operator of the net comes from an older repository.

It is a function of its own under `custom_fwd`, which casts what it gets to fp32. How many neighbourhoods go
through it is the dose. A perfect diagnosis: large products in fp32 without tensor cores (marked below), in
a net that otherwise uses mixed precision. Fix: the plain product, which autocast turns to bf16.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FEATURES, KINDS = 48, 8


class KernelProduct(torch.autograd.Function):
    """Weights of the kernel points, all in one matrix."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, neighbours, weights):
        ctx.save_for_backward(neighbours, weights)
        return neighbours @ weights  # planted

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        neighbours, weights = ctx.saved_tensors
        return grad @ weights.T, neighbours.T @ grad


def plain_product(neighbours, weights):
    return neighbours @ weights


class PointNet(nn.Module):
    def __init__(self, width, depth, kernel):
        super().__init__()
        self.enter, self.kind = nn.Linear(FEATURES, width), nn.Linear(width, KINDS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.look = nn.Linear(FEATURES, kernel)
        self.kernel = nn.Parameter(torch.randn(kernel, kernel) / kernel**0.5)

    def forward(self, points, neighbours, product):
        around = product(F.relu(self.look(neighbours)), self.kernel)
        h = self.enter(points)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.kind(h).float(), around.float().mean()


class Segmentation:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = PointNet(*meter.pick((4096, 5, 2048), (64, 3, 48))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.points = torch.randn(self.rows, FEATURES, device=meter.device)
        self.kinds = torch.randint(KINDS, (self.rows,), device=meter.device)
        self.gather(128)

    def gather(self, count):
        self.neighbours = torch.randn(count, FEATURES, device=self.meter.device)

    def step(self, product):
        with self.meter.autocast():
            scores, around = self.net(self.points, self.neighbours, product)
        loss = F.cross_entropy(scores, self.kinds) + 0.01 * around.square()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def neighbourhood_s(run):
    """One more, there and back."""
    weights, times = run.net.kernel, []
    for count in (2048, 10240):
        rows = torch.randn(count, len(weights), device=run.meter.device, requires_grad=True)
        times.append(run.meter.timed_s(lambda r=rows: KernelProduct.apply(r, weights).sum().backward(), 5))
    return max(1e-9, (times[1] - times[0]) / 8192)


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("highest")
    run = Segmentation(meter)
    meter.calibrate(lambda: run.step(plain_product))
    if meter.dose:
        run.gather(max(128, round(meter.added_s / neighbourhood_s(run))))
    product = KernelProduct.apply if meter.sick else plain_product
    while meter.going_on():
        run.step(product)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
