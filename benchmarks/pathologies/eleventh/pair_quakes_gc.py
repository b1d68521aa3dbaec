"""Two faults: seismograms are copied to the GPU from ordinary memory, and garbage is collected by hand.

Each takes three quarters of a dose. A perfect diagnosis names both: large blocking copies from pageable
memory (first marked line), and the garbage collector's pauses (second). Fix: pinned seismograms, copied
ahead on another stream, and nobody collects by hand.
"""

import gc
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SAMPLES = 0.75, 256


def catalogue(events):
    """Each event knows the one before and its aftershocks."""
    last = None
    for number in range(events):
        event = SimpleNamespace(number=number, before=last, after=[])
        if last is not None:
            last.after.append(event)
        last = event
    return last


class Stations:
    """Two hours in turn, of so many traces each."""

    def __init__(self, traces):
        self.hours, self.number = [torch.full((traces, SAMPLES), 0.1 * n) for n in (1, 2)], 0

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        return self.hours[self.number % 2]


def copied(stations, device):
    for hour in stations:
        yield hour.to(device)  # planted


def copied_ahead(stations, device):
    stations.hours = [hour.pin_memory() for hour in stations.hours]
    side, here, coming = torch.cuda.Stream(), torch.cuda.current_stream(), None
    for hour in stations:
        side.wait_stream(here)
        with torch.cuda.stream(side):
            sent = hour.to(device, non_blocking=True)
        if coming is not None:
            yield coming
        here.wait_stream(side)
        sent.record_stream(here)
        coming = sent


class QuakeNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.strength = nn.Linear(SAMPLES, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, traces):
        h = self.enter(traces)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.strength(h)[:, 0].float()


class Observatory:
    def __init__(self, meter):
        self.meter, self.learned = meter, meter.pick(8192, 64)
        self.net = QuakeNet(*meter.pick((4096, 5), (96, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def step(self, hour):
        traces = hour[torch.randint(len(hour), (self.learned,), device=hour.device)]
        with self.meter.autocast():
            strength = self.net(traces)
        loss = F.smooth_l1_loss(strength, traces.amax(1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Janitor:
    def __init__(self, every):
        self.every = every

    def __call__(self, step):
        if step % self.every == 0:
            gc.collect()  # planted


def main():
    meter = Meter(__doc__)
    observatory, events = Observatory(meter), catalogue(meter.pick(400_000, 40_000))
    traces, janitor = observatory.learned, Janitor(10_000_000)
    here = next(Stations(traces)).to(meter.device)
    meter.calibrate(lambda: observatory.step(here))
    part_s = PART * meter.added_s
    if meter.dose:
        probe = next(Stations(8 * traces))
        once_s = meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5)
        traces = max(traces, round(8 * traces * part_s / once_s))
    if meter.sick:
        janitor.every = max(1, round(meter.timed_s(gc.collect) / part_s))
    ahead = meter.gpu and not meter.sick
    hours = (copied_ahead if ahead else copied)(Stations(traces), meter.device)
    while meter.going_on():
        observatory.step(next(hours))
        meter.ticked()
        janitor(meter.ticks)
    meter.report(excess=True)
    del events


if __name__ == "__main__":
    main()
