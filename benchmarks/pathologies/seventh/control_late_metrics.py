"""Healthy control: two encoders of pictures and texts, whose loss is read in every step, some steps late.

Tempting: a number read from the GPU in every tick; but it was copied long before, so that nothing waits. A
perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

from collections import deque

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PICTURE, TEXT, LATE = 128, 64, 8


class LateMetric:
    """A running mean of what the GPU said some steps ago."""

    def __init__(self, gpu):
        self.gpu, self.waiting, self.mean = gpu, deque(), 0.0
        self.room = [torch.zeros(()).pin_memory() if gpu else torch.zeros(()) for _ in range(LATE + 1)]

    def update(self, value):
        kept = self.room[0]
        self.room.append(self.room.pop(0))
        kept.copy_(value, non_blocking=True)
        arrived = torch.cuda.Event() if self.gpu else None
        if arrived:
            arrived.record()
        self.waiting.append((kept, arrived))
        if len(self.waiting) >= LATE:
            kept, arrived = self.waiting.popleft()
            if arrived:
                arrived.synchronize()
            self.mean = 0.98 * self.mean + 0.02 * kept.item()


def encoder(inputs, width, depth, size=128):
    layers = [nn.Linear(inputs, width), nn.GELU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, size))


class PicturesAndTexts(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.picture, self.text = encoder(PICTURE, width, depth), encoder(TEXT, width, depth)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, pictures, texts):
        one, two = F.normalize(self.picture(pictures).float()), F.normalize(self.text(texts).float())
        return self.scale.exp() * one @ two.T


def main():
    meter = Meter(__doc__)
    pairs = meter.pick(6144, 96)
    net = PicturesAndTexts(*meter.pick((4096, 4), (256, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    pictures = torch.randn(pairs, PICTURE, device=meter.device)
    texts = torch.randn(pairs, TEXT, device=meter.device)
    same, metric = torch.arange(pairs, device=meter.device), LateMetric(meter.gpu)

    def tick():
        with meter.autocast():
            alike = net(pictures, texts).float()
        loss = (F.cross_entropy(alike, same) + F.cross_entropy(alike.T, same)) / 2
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        metric.update(loss.detach())

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
