"""Healthy control: hail from radar pictures; a small net on the CPU raises an alarm when the pictures drift.

Tempting: a part of the model stays on the CPU, on purpose; but it is tiny, and looks at what was copied some
steps ago, beside the GPU. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing;
there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LATE, LOOKED, SIZE = 5, 16, 32


class DriftAlarm(nn.Module):
    """Frozen; it was trained elsewhere, and served on machines without a GPU."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(SIZE, 64), nn.ReLU(), nn.Linear(64, 1)).requires_grad_(False)
        self.highest = 0.0

    def look(self, features):
        self.highest = max(0.99 * self.highest, self.layers(features).sigmoid().max().item())


class OnTheirWay:
    """Features of the last steps, copied behind the training's back."""

    def __init__(self, gpu):
        self.gpu, self.ring = gpu, torch.zeros(LATE, LOOKED, SIZE, pin_memory=gpu)
        self.came, self.number = [None] * LATE, 0

    def swap(self, features):
        """Takes new ones, gives those of `LATE` steps ago."""
        at = self.number % LATE
        if self.came[at] is not None:
            self.came[at].synchronize()
        old = self.ring[at].clone()
        self.ring[at].copy_(features, non_blocking=True)
        if self.gpu:
            self.came[at] = torch.cuda.Event()
            self.came[at].record()
        self.number += 1
        return old


class HailNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(2, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.narrow, self.hail = nn.Linear(width, SIZE), nn.Linear(SIZE, 1)

    def forward(self, radar):
        h = self.stem(radar)
        for conv in self.body:
            h = h + F.gelu(conv(h))
        features = self.narrow(h.mean((2, 3))).float()
        return features, self.hail(features).float()[:, 0]


class HailWatch:
    def __init__(self, meter):
        self.meter, (batch, side) = meter, meter.pick((256, 64), (16, 32))
        net = HailNet(*meter.pick((384, 7), (48, 4)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        radar = torch.rand(batch, 2, side, side, device=meter.device)
        self.radar = radar.contiguous(memory_format=torch.channels_last)
        self.hail = (torch.rand(batch, device=meter.device) < 0.3).float()
        self.alarm, self.way = DriftAlarm(), OnTheirWay(meter.gpu)

    def step(self):
        with self.meter.autocast():
            features, scores = self.net(self.radar)
        loss = F.binary_cross_entropy_with_logits(scores, self.hail)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.alarm.look(self.way.swap(features.detach()[:LOOKED]))


def main():
    meter = Meter(__doc__)
    watch = HailWatch(meter)
    meter.calibrate(watch.step)
    while meter.going_on():
        watch.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
