"""Nerve cells in cubes of tissue; the cubes come as NumPy arrays and are copied to the GPU `non_blocking`.

That word does nothing for ordinary memory. How many slices a cube has is the dose. A perfect diagnosis: large
copies to the GPU from pageable memory (marked below), for which the training waits. Fix: pinned memory, and
the next cubes are copied on a stream of their own.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE, CELLS = 64, 6


class Microscope:
    """Two lots of cubes in turn, as they came from the disk some time ago."""

    def __init__(self, cubes, slices):
        self.lots = [np.full((cubes, slices, SIDE, SIDE), 0.1 * n, np.float32) for n in range(2)]

    def __iter__(self):
        while True:
            yield from self.lots


def there(microscope, device):
    for cubes in microscope:
        yield torch.from_numpy(cubes).to(device, non_blocking=True)  # planted


def there_ahead(microscope, device):
    """One lot is under way while the one before is learned."""
    lots = [torch.from_numpy(cubes).pin_memory() for cubes in microscope.lots]
    side, here, number, coming = torch.cuda.Stream(), torch.cuda.current_stream(), 0, None
    while True:
        with torch.cuda.stream(side):
            sent = lots[number % 2].to(device, non_blocking=True)
        number += 1
        if coming is not None:
            yield coming
        here.wait_stream(side)
        sent.record_stream(here)
        coming = sent


class CubeNet(nn.Module):
    """Looks at the mean of all slices."""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.cell = nn.Linear(width, CELLS)

    def forward(self, cubes):
        flat = cubes.mean(1, keepdim=True).contiguous(memory_format=torch.channels_last)
        h = self.stem(flat)
        for conv in self.body:
            h = h + F.gelu(conv(h))
        return self.cell(h.mean((2, 3))).float()


class Laboratory:
    def __init__(self, meter):
        self.meter, self.cubes = meter, meter.pick(256, 4)
        net = CubeNet(*meter.pick((384, 7), (24, 2)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.cells = torch.arange(self.cubes, device=meter.device) % CELLS

    def learn(self, cubes):
        with self.meter.autocast():
            scores = self.net(cubes)
        loss = F.cross_entropy(scores, self.cells)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def slice_s(meter, cubes):
    """One slice more in each cube, copied from ordinary memory."""
    probe = torch.zeros(cubes, 12, SIDE, SIDE).add_(1)
    return meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5) / 12


def main():
    meter, slices = Meter(__doc__), 1
    laboratory = Laboratory(meter)
    blank = torch.zeros(laboratory.cubes, slices, SIDE, SIDE, device=meter.device)
    meter.calibrate(lambda: laboratory.learn(blank))
    if meter.dose:
        wanted = round(meter.added_s / slice_s(meter, laboratory.cubes))
        slices = min(meter.pick(500, 4), max(1, wanted))
    ahead = meter.gpu and not meter.sick
    stream = (there_ahead if ahead else there)(Microscope(laboratory.cubes, slices), meter.device)
    while meter.going_on():
        laboratory.learn(next(stream))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
