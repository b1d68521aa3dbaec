"""Stones of old mosaics, told apart by a wide net; on the GPU each is whitened first, as it was once done.

Whitening is a product with one large matrix, done when a batch arrives, before the training enters
autocast. In how many shifted views each stone is whitened is the dose. A perfect diagnosis: a large matrix
product in fp32, without tensor cores (marked below). Fix: the same inside autocast.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

QUARRIES, MOST = 11, 40


class Whitening:
    """Takes off the mean, and what pixels have in common."""

    def __init__(self, pixels, device):
        self.mean = torch.full((pixels,), 0.5, device=device)
        mixed = torch.randn(pixels, pixels, device=device) / pixels**0.5
        self.matrix = torch.eye(pixels, device=device) + 0.1 * mixed

    def __call__(self, views):
        return (views - self.mean) @ self.matrix  # planted


class QuarryNet(nn.Module):
    def __init__(self, pixels, width, depth):
        super().__init__()
        self.enter, self.quarry = nn.Linear(pixels, width), nn.Linear(width, QUARRIES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, stones):
        h = self.enter(stones)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.quarry(h).float()


class MosaicModule:
    """The hooks of a trainer: what to do with a batch when it is there, and a step."""

    def __init__(self, meter):
        self.meter, (self.rows, pixels) = meter, meter.pick((8192, 1024), (64, 48))
        self.net = QuarryNet(pixels, *meter.pick((4096, 5), (128, 3))).to(meter.device)
        self.whitening = Whitening(pixels, meter.device)
        self.stones = torch.rand(self.rows, pixels, device=meter.device)
        self.quarries = torch.arange(self.rows, device=meter.device) % QUARRIES
        self.in_autocast, self.views = True, 1

    @torch.no_grad()
    def on_after_batch_transfer(self, stones):
        total = 0
        for shift in range(self.views):
            with torch.autocast(stones.device.type, torch.bfloat16, self.in_autocast and self.meter.gpu):
                total = total + self.whitening(stones.roll(shift, 1))
        return total.float() / self.views

    def training_step(self, stones):
        with self.meter.autocast():
            scores = self.net(stones)
        return F.cross_entropy(scores, self.quarries)


class Fit:
    def __init__(self, module):
        self.module = module
        self.optimizer = torch.optim.AdamW(module.net.parameters(), 1e-5, fused=module.meter.gpu)

    def step(self):
        stones = self.module.on_after_batch_transfer(self.module.stones)
        loss = self.module.training_step(stones)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def view_s(module, in_autocast):
    module.in_autocast, module.views = in_autocast, 8
    once_s = module.meter.timed_s(lambda: module.on_after_batch_transfer(module.stones), calls=6)
    module.in_autocast, module.views = True, 1
    return once_s / 8


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("highest")
    module = MosaicModule(meter)
    fit = Fit(module)
    meter.calibrate(fit.step)
    if meter.dose:
        more_s = view_s(module, in_autocast=False)
        if meter.gpu:
            more_s -= view_s(module, in_autocast=True)
        module.views = min(MOST, max(1, round(meter.added_s / max(1e-5, more_s))))
    module.in_autocast = not meter.sick
    while meter.going_on():
        fit.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
