"""Tissue on microscope slides: wide convolutions on stored feature maps, with the batch of a laptop.

A map takes 1.4, 2.2 and 3.5 times as long as with the largest batch at doses 1 to 3; compare `samples_per_s`.
A perfect diagnosis: the batch is too small for the GPU, whose kernels are few and do not fill it, and most of
its memory is free; the size is used at the line marked below. Fix: the large batch.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TIMES = (1.0, 1.4, 2.2, 3.5)
CELLS, KINDS = 8, 6


class Head(nn.Module):
    """What a frozen backbone saw, on a coarse grid, becomes a kind of tissue."""

    def __init__(self, channels, depth):
        super().__init__()
        self.body = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(depth)
        )
        self.kind = nn.Linear(channels, KINDS)

    def forward(self, maps):
        h = maps
        for conv in self.body:
            h = F.relu(conv(h), inplace=True)
        return self.kind(h.mean((2, 3))).float()


class SlideStore:
    """Feature maps of all slides, made once, on the device."""

    def __init__(self, meter, slides, channels):
        kind = meter.pick(torch.bfloat16, torch.float32)
        maps = torch.rand(slides, channels, CELLS, CELLS, device=meter.device, dtype=kind)
        self.maps = maps.contiguous(memory_format=torch.channels_last)
        self.kinds = torch.randint(KINDS, (slides,), device=meter.device)

    def take(self, count):
        start = int(torch.randint(len(self.kinds) - count + 1, ()))
        return self.maps[start : start + count], self.kinds[start : start + count]


class Training:
    def __init__(self, meter):
        self.meter, (self.largest, channels, depth) = meter, meter.pick((128, 2048, 3), (16, 16, 2))
        self.head = Head(channels, depth).to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.head.parameters(), 1e-4, fused=meter.gpu)
        self.store = SlideStore(meter, 2 * self.largest, channels)

    def step(self, batch):
        maps, kinds = self.store.take(batch)
        with self.meter.autocast():
            scores = self.head(maps)
        loss = F.cross_entropy(scores, kinds)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def fits_a_laptop(training, times):
    """The first batch, from the largest down, whose maps take so many times as long; the waste of a step."""
    meter, batch = training.meter, training.largest
    each_s = meter.healthy_s / batch
    while batch > 1:
        batch = max(1, batch * 4 // 5)
        tick_s = meter.timed_s(lambda b=batch: training.step(b), calls=4)
        if tick_s >= times * batch * each_s:
            break
    return batch, max(0.0, tick_s - batch * each_s)


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    batch, wasted_s = training.largest, 0.0
    meter.calibrate(lambda: training.step(batch))
    if meter.sick:
        batch, wasted_s = fits_a_laptop(training, TIMES[meter.dose])
    while meter.going_on():
        training.step(batch)  # planted
        meter.injected_s += wasted_s
        meter.ticked(samples=batch)
    meter.report()


if __name__ == "__main__":
    main()
