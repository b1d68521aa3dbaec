"""Crops from the air, by a net for many regions; of all regions, those that it does worst in count double.

They are found by `heapq.nlargest`, which compares losses that lie on the GPU, and each comparison is read
from it. How many regions there are is the dose. A perfect diagnosis: reads from the GPU, many in every tick
(marked below). Fix: `topk`, on the device.
"""

import heapq
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CROPS, WORST = 10, 4


@dataclass(frozen=True)
class Config:
    rows: int
    bands: int
    width: int
    depth: int


class Seen:
    """A region's loss, in the order of what was lost."""

    def __init__(self, region, loss):
        self.region, self.loss = region, loss

    def __lt__(self, other):
        return bool(self.loss < other.loss)  # planted


def doubled_by_heap(losses):
    worst = heapq.nlargest(
        WORST, (Seen(region, loss) for region, loss in enumerate(losses.detach().unbind()))
    )
    for seen in worst:
        losses = losses + F.one_hot(torch.tensor(seen.region), len(losses)).to(losses) * seen.loss
    return losses.mean()


def doubled_by_topk(losses):
    return (losses.sum() + losses.topk(WORST).values.sum()) / len(losses)


class CropNet(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.enter, self.crop = nn.Linear(config.bands, config.width), nn.Linear(config.width, CROPS)
        self.body = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, spectra):
        h = self.enter(spectra)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.crop(self.norm(h)).float()


class Survey:
    def __init__(self, meter, config):
        self.meter, self.net = meter, CropNet(config).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.spectra = torch.rand(config.rows, config.bands, device=meter.device)
        self.crops = torch.randint(CROPS, (config.rows,), device=meter.device)
        self.spread(8)

    def spread(self, regions):
        """Over so many regions; they need not be of one size."""
        self.region = torch.arange(len(self.crops), device=self.meter.device) % regions
        self.regions = regions

    def step(self, doubled):
        with self.meter.autocast():
            scores = self.net(self.spectra)
        each = F.cross_entropy(scores, self.crops, reduction="none")
        # A little different from step to step, as samples of regions are.
        each = each * (0.5 + torch.rand_like(each))
        losses = torch.zeros(self.regions, device=each.device).index_add(0, self.region, each)
        loss = doubled(losses)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def region_s(meter):
    losses = torch.rand(128, device=meter.device)
    return meter.timed_s(lambda: doubled_by_heap(losses), calls=8) / 128


def main():
    meter = Meter(__doc__)
    survey = Survey(meter, Config(*meter.pick((8192, 64, 4096, 5), (128, 16, 192, 4))))
    meter.calibrate(lambda: survey.step(doubled_by_topk))
    if meter.dose:
        survey.spread(min(len(survey.crops), max(8, round(meter.added_s / region_s(meter)))))
    doubled = doubled_by_heap if meter.sick else doubled_by_topk
    while meter.going_on():
        survey.step(doubled)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
