"""Two faults: a part of the net stays in fp32, and radar sweeps are copied from ordinary memory.

Each takes three quarters of a dose. A perfect diagnosis names both: products without tensor cores (first
marked line) and large blocking copies from pageable memory (second). Fix: autocast for all, pinned memory
without blocking.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, CELLS, SIDE = 0.75, 256, 1024


class RadarNet(nn.Module):
    def __init__(self, width, depth, exact_width, exact):
        super().__init__()
        self.exact, self.exact_width = exact, exact_width
        self.enter = nn.Linear(CELLS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.narrow, self.echo = nn.Linear(width, exact_width), nn.Linear(exact_width, CELLS)
        self.phase = nn.ModuleList()

    def add_phase_layers(self, count):
        here = self.echo.weight.device
        width = self.exact_width
        self.phase.extend([nn.Linear(width, width, device=here) for _ in range(count)])

    def phases(self, h):
        for layer in self.phase:
            h = h + F.silu(layer(h))  # planted
        return self.echo(h)

    def forward(self, cells):
        h = self.enter(cells)
        for layer in self.body:
            h = h + F.silu(layer(h))
        h = self.narrow(h)
        with torch.autocast(cells.device.type, torch.bfloat16, enabled=cells.is_cuda and not self.exact):
            return self.phases(h.float()).float()


class Sweeps:
    """Some recorded sweeps, in the memory they were read into."""

    def __init__(self, layers, side, meter):
        self.meter = meter
        self.kept = [torch.empty(layers, side, side).fill_(0.1 * (n + 1)) for n in range(2)]
        if meter.gpu and not meter.sick:
            self.kept = [sweep.pin_memory() for sweep in self.kept]

    def on_device(self, n):
        sweep, device = self.kept[n % 2], self.meter.device
        if self.meter.sick:
            return sweep.to(device)  # planted
        return sweep.to(device, non_blocking=True)


def copied_layers(meter, side, wanted_s):
    probe = torch.empty(16, side, side).fill_(0.5)
    return max(1, round(16 * wanted_s / meter.timed_s(lambda: probe.to(meter.device, copy=True))))


def exact_layers(meter, rows, width, wanted_s):
    layer = nn.Linear(width, width, device=meter.device)
    x = torch.randn(rows, width, device=meter.device, requires_grad=True)
    each_s = meter.timed_s(lambda: layer(x).sum().backward(), calls=10)
    return max(1, round(1.1 * wanted_s / each_s))


def main():
    meter = Meter(__doc__)
    side, rows, exact_width = meter.pick((SIDE, 8192, 1024), (64, 16, 16))
    net = RadarNet(*meter.pick((4096, 5), (32, 1)), exact_width, exact=meter.sick).to(meter.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, foreach=True)

    def learn(sweep):
        cells = sweep.mean(0).view(-1, CELLS)
        cells = cells.repeat(-(-rows // len(cells)), 1)[:rows]
        with meter.autocast():
            echo = net(cells)
        loss = (echo - cells.roll(1, 0)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    silent = torch.zeros(1, side, side, device=meter.device)
    meter.calibrate(lambda: learn(silent))
    part_s, layers = PART * meter.added_s, 1
    if meter.dose:
        layers = copied_layers(meter, side, part_s)
        net.add_phase_layers(exact_layers(meter, rows, exact_width, part_s))
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, foreach=True)
    sweeps = Sweeps(layers, side, meter)
    while meter.going_on():
        learn(sweeps.on_device(meter.ticks))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
