"""Smog over a city, foretold for many stations, each with a small vector of its own; trained by Lion.

The optimizer was copied from an appendix and goes over the weights one by one. How many stations there are
is the dose. A perfect diagnosis: launch-bound, by some tiny kernels for each weight, one after another (any
of the lines marked below). Fix: the same on lists of weights, by `torch._foreach_*`.
"""

import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

MEASURED, OWN = 40, 16


class Lion(torch.optim.Optimizer):
    """Goes by the sign of what it remembers."""

    def __init__(self, weights, rate=1e-5, now=0.9, later=0.99):
        super().__init__(weights, {"rate": rate, "now": now, "later": later})
        self.remembered = [torch.zeros_like(weight) for weight in self.weights]

    @property
    def weights(self):
        return self.param_groups[0]["params"]

    @torch.no_grad()
    def step(self):
        options = self.param_groups[0]
        for weight, mean in zip(self.weights, self.remembered, strict=True):
            update = mean.lerp(weight.grad, 1 - options["now"]).sign_()  # planted
            weight.add_(update, alpha=-options["rate"])  # planted
            mean.lerp_(weight.grad, 1 - options["later"])  # planted


class ForeachLion(Lion):
    @torch.no_grad()
    def step(self):
        options = self.param_groups[0]
        gradients = [weight.grad for weight in self.weights]
        updates = torch._foreach_lerp(self.remembered, gradients, 1 - options["now"])
        torch._foreach_sign_(updates)
        torch._foreach_add_(self.weights, updates, alpha=-options["rate"])
        torch._foreach_lerp_(self.remembered, gradients, 1 - options["later"])


class SmogNet(nn.Module):
    def __init__(self, stations, width, depth):
        super().__init__()
        self.own = nn.ParameterList(torch.randn(OWN) for _ in range(stations))
        self.enter, self.leave = nn.Linear(MEASURED + OWN, width), nn.Linear(width, MEASURED)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, measured, station):
        own = F.embedding(station % len(self.own), torch.stack(list(self.own)))
        h = self.enter(torch.cat([measured, own], 1))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class City:
    def __init__(self, meter, stations, kind):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.net = SmogNet(stations, *meter.pick((4096, 5), (96, 3))).to(meter.device)
        self.optimizer = kind(self.net.parameters())
        self.measured = torch.randn(rows, MEASURED, device=meter.device)
        self.station = torch.arange(rows, device=meter.device)

    def step(self):
        with self.meter.autocast():
            guess = self.net(self.measured, self.station)
        loss = F.huber_loss(guess, self.measured.roll(1, 0))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def orders_s(self, steps=4):
        """How long the host is busy with a step, if it need not wait."""
        self.step()
        whole_s = 0.0
        for _ in range(steps):
            self.meter.sync()
            begin_s = time.perf_counter()
            self.step()
            whole_s += time.perf_counter() - begin_s
        return whole_s / steps


def stations_taking(meter):
    few_s, many_s = (City(meter, count, Lion).orders_s() for count in (32, 160))
    each_s = max(1e-6, (many_s - few_s) / 128)
    return max(32, round(32 + (meter.host_s - meter.pick(few_s, 0.0)) / each_s))


def main():
    meter = Meter(__doc__)
    stations, kind = 32, Lion if meter.sick else ForeachLion
    healthy = City(meter, stations, ForeachLion)
    meter.calibrate(healthy.step)
    del healthy
    if meter.dose:
        stations = stations_taking(meter)
    city = City(meter, stations, kind)
    while meter.going_on():
        city.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
