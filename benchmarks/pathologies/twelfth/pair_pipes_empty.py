"""Two faults: pictures of sewer pipes are copied from ordinary memory, and an exporter empties the cache.

Each takes three quarters of a dose. A perfect diagnosis names both: large blocking copies to the GPU from
pageable memory (first marked line), and memory given back to the driver and asked for again (second). Fix:
pinned pictures, copied ahead on a stream of their own, and a cache that is left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE, DEFECTS, PART = 64, 9, 0.75


@dataclass
class Camera:
    """Two rides in turn, each so many pictures of every place."""

    places: int
    pictures: int

    def rides(self):
        size = self.places, self.pictures, SIDE, SIDE
        return [torch.full(size, 50 + number, dtype=torch.uint8) for number in range(2)]


class Copied:
    def __init__(self, camera, device):
        self.rides, self.device, self.number = camera.rides(), device, 0

    def next_ride(self):
        self.number += 1
        return self.rides[self.number % 2]

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield self.next_ride().to(self.device)  # planted


class CopiedAhead(Copied):
    def __init__(self, camera, device):
        super().__init__(camera, device)
        self.rides = [ride.pin_memory() for ride in self.rides]
        self.side = torch.cuda.Stream()

    def send(self):
        with torch.cuda.stream(self.side):
            return self.next_ride().to(self.device, non_blocking=True)

    def __iter__(self):
        here, coming = torch.cuda.current_stream(), self.send()
        while True:
            here.wait_stream(self.side)
            now, coming = coming, self.send()
            now.record_stream(here)
            yield now


class Exporter:
    """Makes room for a report of now and then; `every` 0: never."""

    def __init__(self, gpu):
        self.gpu, self.every = gpu, 0

    def make_room(self):
        if self.gpu:
            torch.cuda.empty_cache()  # planted

    def after(self, step):
        if self.every and step % self.every == 0:
            self.make_room()


class PipeNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.defect = nn.Linear(width, DEFECTS)

    def forward(self, ride):
        mean = ride.float().mean(1, keepdim=True).div(255).contiguous(memory_format=torch.channels_last)
        h = self.stem(mean)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.defect(h.mean((2, 3))).float()


class Inspection:
    def __init__(self, meter):
        self.meter, self.places = meter, meter.pick(256, 4)
        net = PipeNet(*meter.pick((384, 7), (24, 2)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.defects = torch.arange(self.places, device=meter.device) % DEFECTS

    def step(self, ride):
        with self.meter.autocast():
            scores = self.net(ride)
        loss = F.cross_entropy(scores, self.defects)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter, pictures = Meter(__doc__), 1
    inspection, exporter = Inspection(meter), Exporter(meter.gpu)
    blank = Camera(inspection.places, 1).rides()[0].to(meter.device)
    meter.calibrate(lambda: inspection.step(blank))
    part_s = PART * meter.added_s
    if meter.sick and meter.gpu:
        fresh_s = meter.timed_s(lambda: (inspection.step(blank), exporter.make_room()), calls=6)
        exporter.every = max(1, round((fresh_s - meter.healthy_s) / part_s))
    if meter.dose:
        probe = Camera(inspection.places, 24).rides()[0]
        each_s = meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5) / 24
        pictures = min(meter.pick(500, 4), max(1, round(part_s / each_s)))
    ahead = meter.gpu and not meter.sick
    rides = iter((CopiedAhead if ahead else Copied)(Camera(inspection.places, pictures), meter.device))
    while meter.going_on():
        inspection.step(next(rides))
        meter.ticked()
        exporter.after(meter.ticks)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
