"""Learning to hover from demonstrations, while a thread sums up the telemetry that a drone has sent.

How much has come each time is the dose. A perfect diagnosis: another Python thread holds the interpreter, and
the training thread waits for it (its loop is marked below). Fix: the telemetry is summed up in a process.
"""

import math
import multiprocessing
import threading
import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, ROTORS, PERIOD_S = 18, 4, 0.8


class Telemetry:
    """Lines like `gyro.x=0.5`; each channel gets a mean and a spread."""

    def __init__(self):
        self.lines = [f"{name}.{axis}={0.01 * n}" for n, name in enumerate(("gyro", "acc")) for axis in "xyz"]
        self.channels = {}

    def sum_up(self, until_s):
        count = 0
        while time.perf_counter() < until_s:
            for line in self.lines:
                name, _, value = line.partition("=")
                seen, mean, spread = self.channels.get(name, (0, 0.0, 0.0))
                off = float(value) - mean
                mean += off / (seen + 1)
                self.channels[name] = seen + 1, mean, math.hypot(spread, off)  # planted
                count += 1
        return count


def follow(over, busy_s):
    """Endless, until told; what has come in a period takes some time."""
    telemetry = Telemetry()
    while not over.is_set():
        begin_s = time.perf_counter()
        telemetry.sum_up(begin_s + busy_s)
        over.wait(max(0.01, PERIOD_S - (time.perf_counter() - begin_s)))


class Monitor:
    """A thread or a process that follows."""

    def __init__(self, busy_s, apart):
        context = multiprocessing.get_context("fork")
        self.over = context.Event() if apart else threading.Event()
        kind = context.Process if apart else threading.Thread
        self.running = kind(target=follow, args=(self.over, busy_s), daemon=True)

    def __enter__(self):
        self.running.start()
        return self

    def __exit__(self, *what):
        self.over.set()
        self.running.join()


class Hover(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.rotors = nn.Linear(SEEN, width), nn.Linear(width, ROTORS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.mish(layer(h))
        return self.rotors(h).float().sigmoid()


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 160)
    hover = Hover(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(hover.parameters(), 1e-5, fused=meter.gpu)
    seen = torch.randn(rows, SEEN, device=meter.device)
    shown = torch.rand(rows, ROTORS, device=meter.device)

    def imitate():
        with meter.autocast():
            flown = hover(seen)
        loss = F.mse_loss(flown, shown)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(imitate)
    # A GPU has work for a while when its orders stop.
    busy_s = PERIOD_S * meter.share / (1 + meter.share) + meter.pick(0.08, 0.0) * bool(meter.dose)
    with Monitor(busy_s, apart=not meter.sick):
        while meter.going_on():
            imitate()
            meter.ticked()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
