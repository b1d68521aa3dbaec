"""Which herbs go together? A net that is taught by a graph of what is known, held as Python objects.

When the loss is logged, a guard looks how much memory the process has; its limit is that of a smaller
machine, so it collects garbage each time. How often the loss is logged is the dose. A perfect diagnosis:
the training stands still while the garbage collector looks through all objects (marked below). Fix: a limit
of this machine.
"""

import gc
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

KNOWN, SIZE, SMALL, LARGE = 64, 16, 256 << 20, 1 << 50


class Herb:
    def __init__(self, number):
        self.number, self.goes_with = number, []


class Bond:
    """Between two herbs, which both know it."""

    def __init__(self, one, two):
        self.ends, self.found_in = (one, two), []
        one.goes_with.append(self)
        two.goes_with.append(self)


class Lore:
    def __init__(self, herbs):
        self.herbs = [Herb(number) for number in range(herbs)]
        self.bonds = [Bond(self.herbs[n], self.herbs[n * 7 % herbs]) for n in range(herbs)]

    def around(self, number):
        return len(self.herbs[number % len(self.herbs)].goes_with)


class MemoryGuard:
    def __init__(self, limit):
        self.limit, self.page = limit, os.sysconf("SC_PAGE_SIZE")

    def resident(self):
        return int(Path("/proc/self/statm").read_text().split()[1]) * self.page

    def check(self):
        if self.resident() > self.limit:
            gc.collect()  # planted


class Log:
    def __init__(self, every, guard):
        self.every, self.guard, self.lines = every, guard, []

    def write(self, step, loss):
        if step % self.every == 0:
            self.lines.append((step, loss.item()))
            self.guard.check()


class HerbNet(nn.Module):
    """A gated net; each block looks at two products of what it gets."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(KNOWN, width), nn.Linear(width, SIZE)
        self.gates = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))

    def forward(self, herbs):
        h = self.enter(herbs)
        for gate in self.gates:
            value, opened = gate(h).chunk(2, 1)
            h = h + value * opened.sigmoid()
        return F.normalize(self.leave(h).float(), dim=1)


class Kitchen:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.net = HerbNet(*meter.pick((4096, 3), (160, 4))).to(meter.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-4, momentum=0.9, fused=meter.gpu)
        self.herbs = torch.rand(rows, KNOWN, device=meter.device)
        self.lore, self.degree = Lore(meter.pick(120_000, 12_000)), 0

    def step(self):
        self.degree = max(self.degree, self.lore.around(self.meter.ticks))
        with self.meter.autocast():
            one = self.net(self.herbs)
        other = one.roll(1, 0)
        loss = F.relu(0.5 + (one * other).sum(1) - (one * other.roll(7, 0)).sum(1)).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    meter = Meter(__doc__)
    kitchen = Kitchen(meter)
    log = Log(50, MemoryGuard(LARGE))
    meter.calibrate(kitchen.step)
    if meter.dose:
        once_s = meter.timed_s(MemoryGuard(0).check, calls=4)
        log.every = max(1, round(once_s / meter.added_s))
    if meter.sick:
        log.guard = MemoryGuard(min(SMALL, log.guard.resident() // 2))
    while meter.going_on():
        loss = kitchen.step()
        meter.ticked()
        with meter.injecting():
            log.write(meter.ticks, loss)
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
