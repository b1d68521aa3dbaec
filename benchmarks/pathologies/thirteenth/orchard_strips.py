"""Fruit in orchards, from a drone with many bands; a flight lies in memory, and is learned strip by strip.

The strips are views of one long NumPy array, each copied when it is needed. How many bands there are is the
dose. A perfect diagnosis: large copies to the GPU from pageable memory (marked below), for which the training
waits. Fix: the array is pinned once, and the next strip is copied on a stream of its own.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE, FRUITS, STRIPS = 32, 5, 3


class Flight:
    """All strips, one behind the other."""

    def __init__(self, tiles, bands):
        self.array = np.ones((STRIPS * tiles, bands, SIDE, SIDE), np.int16)
        self.tiles, self.at = tiles, 0

    def next_strip(self, whole):
        self.at = (self.at + 1) % STRIPS
        return whole[self.at * self.tiles : (self.at + 1) * self.tiles]


def strips(flight, device):
    while True:
        strip = torch.as_tensor(flight.next_strip(flight.array))
        yield strip.to(device)  # planted


def strips_ahead(flight, device):
    whole, side, here = torch.from_numpy(flight.array).pin_memory(), torch.cuda.Stream(), None
    while True:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            sent = flight.next_strip(whole).to(device, non_blocking=True)
        if here is not None:
            yield here
        torch.cuda.current_stream().wait_stream(side)
        sent.record_stream(torch.cuda.current_stream())
        here = sent


class FruitNet(nn.Module):
    """Takes the mean of neighbouring bands, then looks closer."""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 2, stride=2)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.fruit = nn.Linear(width, FRUITS)

    def forward(self, strip):
        bright = strip.sum(1, keepdim=True, dtype=torch.float32) / strip.shape[1]
        h = self.stem(bright).contiguous(memory_format=torch.channels_last)
        for conv in self.body:
            h = h + F.gelu(conv(h))
        return self.fruit(h.amax((2, 3))).float()


class Orchard:
    def __init__(self, meter):
        self.meter, self.tiles = meter, meter.pick(256, 6)
        net = FruitNet(*meter.pick((384, 7), (32, 3)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.fruits = torch.arange(self.tiles, device=meter.device) % FRUITS

    def learn(self, strip):
        with self.meter.autocast():
            scores = self.net(strip)
        loss = F.cross_entropy(scores, self.fruits)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def band_s(meter, tiles):
    probe = torch.ones(tiles, 64, SIDE, SIDE, dtype=torch.int16)
    return meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5) / 64


def main():
    meter, bands = Meter(__doc__), 2
    orchard = Orchard(meter)
    blank = torch.ones(orchard.tiles, bands, SIDE, SIDE, dtype=torch.int16, device=meter.device)
    meter.calibrate(lambda: orchard.learn(blank))
    if meter.dose:
        wanted = round(meter.added_s / band_s(meter, orchard.tiles))
        bands = min(meter.pick(800, 8), max(2, wanted))
    ahead = meter.gpu and not meter.sick
    stream = (strips_ahead if ahead else strips)(Flight(orchard.tiles, bands), meter.device)
    while meter.going_on():
        orchard.learn(next(stream))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
