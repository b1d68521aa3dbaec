"""Noise taken out of X-ray projections; each scan is sent to the GPU whole, and some of its rows are learned.

How many rows a scan has is the dose. It is sent with `non_blocking=True`, but from ordinary memory, where
that means nothing. A perfect diagnosis: large copies from pageable memory, for which both wait (marked
below). Fix: pinned scans, sent ahead on another stream.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

DETECTORS = 256


class Scanner:
    """Projections as they come, row by row; two scans in turn."""

    def __init__(self, rows):
        self.scans = [torch.full((rows, DETECTORS), 0.1 + 0.2 * n) for n in range(2)]
        self.number = 0

    def pinned(self):
        self.scans = [scan.pin_memory() for scan in self.scans]
        return self

    def next(self):
        self.number += 1
        return self.scans[self.number % 2]


class Sent:
    def __init__(self, scanner, device):
        self.scanner, self.device = scanner, device

    def next(self):
        return self.scanner.next().to(self.device, non_blocking=True)  # planted


class SentAhead:
    def __init__(self, scanner, device):
        self.scanner, self.device = scanner.pinned(), device
        self.side = torch.cuda.Stream()
        self.send()

    def send(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.coming = self.scanner.next().to(self.device, non_blocking=True)

    def next(self):
        here = torch.cuda.current_stream()
        here.wait_stream(self.side)
        scan = self.coming
        scan.record_stream(here)
        self.send()
        return scan


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(DETECTORS, width), nn.Linear(width, DETECTORS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, rows):
        h = self.enter(rows)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return rows - self.leave(h).float()


class Training:
    def __init__(self, meter):
        self.meter, self.learned = meter, meter.pick(8192, 64)
        self.net = Denoiser(*meter.pick((4096, 5), (96, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def step(self, scan):
        clean = scan[torch.randint(len(scan), (self.learned,), device=scan.device)]
        noisy = clean + 0.1 * torch.randn_like(clean)
        with self.meter.autocast():
            guess = self.net(noisy)
        loss = F.mse_loss(guess, clean)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    rows = training.learned
    here = Scanner(rows).next().to(meter.device)
    meter.calibrate(lambda: training.step(here))
    if meter.dose:
        probe = Scanner(8 * training.learned).next()
        once_s = meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5)
        rows = max(training.learned, round(8 * training.learned * meter.added_s / once_s))
    ahead = meter.gpu and not meter.sick
    source = (SentAhead if ahead else Sent)(Scanner(rows), meter.device)
    while meter.going_on():
        training.step(source.next())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
