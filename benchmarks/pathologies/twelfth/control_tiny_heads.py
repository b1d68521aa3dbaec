"""Healthy control: yields of many crops by one net, with a small head for each, asked one after another.

Tempting: a loop of tiny kernels, and a loss that is added up in it, in fp32; but there are few of them, and
the host is far ahead of the GPU in spite of them. A perfect diagnosis: healthy, nothing to mend. The dose is
taken and does nothing; there is no planted line.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CROPS, SOIL, FEW = 10, 56, 64


@dataclass(frozen=True)
class Config:
    rows: int
    width: int
    depth: int


ON_CARD, ON_LAPTOP = Config(8192, 4096, 5), Config(96, 288, 4)


class CropNet(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.enter, self.whole = nn.Linear(SOIL, config.width), nn.Linear(config.width, 1)
        self.body = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(config.depth))
        self.narrow = nn.Linear(config.width, 16)
        self.heads = nn.ModuleList(nn.Linear(16, 1) for _ in range(CROPS))

    def forward(self, soil):
        h = self.enter(soil)
        for layer in self.body:
            h = h + F.silu(layer(h))
        narrow = self.narrow(h[:FEW])
        return self.whole(h).float(), [head(narrow).float() for head in self.heads]


class CropModule:
    """As a trainer's module would be written: a step that returns a loss, and an optimizer."""

    def __init__(self, meter, config):
        self.meter, self.net = meter, CropNet(config).to(meter.device)
        self.soil = torch.rand(config.rows, SOIL, device=meter.device)
        self.yields = torch.rand(CROPS, FEW, 1, device=meter.device)

    def training_step(self):
        with self.meter.autocast():
            whole, each = self.net(self.soil)
        loss = F.mse_loss(whole[:, 0], self.soil.mean(1))
        for guess, harvested in zip(each, self.yields, strict=True):
            loss = loss + F.mse_loss(guess, harvested) / CROPS
        return loss

    def optimizer(self):
        return torch.optim.AdamW(self.net.parameters(), 1e-5, fused=self.meter.gpu)


class Fit:
    def __init__(self, module):
        self.module, self.optimizer = module, module.optimizer()

    def step(self):
        loss = self.module.training_step()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    fit = Fit(CropModule(meter, meter.pick(ON_CARD, ON_LAPTOP)))
    meter.calibrate(fit.step)
    while meter.going_on():
        fit.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
