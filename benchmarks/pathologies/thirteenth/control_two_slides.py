"""Healthy control: tissue is told apart point by point, in slides so large that a batch is two of them.

Tempting: a batch of two, and a small part of the GPU's memory in use; but two slides are enough work for
all of the GPU. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is
no planted line.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TISSUES = 5


@dataclass(frozen=True)
class Settings:
    side: int
    width: int
    depth: int
    batch: int = 2


class SlideNet(nn.Module):
    """Down, some convolutions, and up again, with what was seen before."""

    def __init__(self, settings):
        super().__init__()
        width, half = settings.width, settings.width // 2
        self.stem, self.down = nn.Conv2d(3, half, 8, stride=8), nn.Conv2d(half, width, 2, stride=2)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(settings.depth))
        self.up, self.tissue = nn.ConvTranspose2d(width, half, 2, stride=2), nn.Conv2d(half, TISSUES, 1)

    def forward(self, slides):
        early = F.relu(self.stem(slides))
        h = self.down(early)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.tissue(early + self.up(h)).float()


class Pathology:
    def __init__(self, meter, settings):
        self.meter, channels = meter, {"memory_format": torch.channels_last}
        self.net = SlideNet(settings).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        slides = torch.rand(settings.batch, 3, settings.side, settings.side, device=meter.device)
        self.slides, small = slides.contiguous(**channels), settings.side // 8
        self.tissues = torch.randint(TISSUES, (settings.batch, small, small), device=meter.device)

    def step(self):
        with self.meter.autocast():
            scores = self.net(self.slides)
        loss = F.cross_entropy(scores, self.tissues)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    pathology = Pathology(meter, meter.pick(Settings(2048, 512, 8), Settings(256, 48, 3)))
    meter.calibrate(pathology.step)
    while meter.going_on():
        pathology.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
