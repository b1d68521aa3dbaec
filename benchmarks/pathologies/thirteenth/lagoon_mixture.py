"""How high will the lagoon be? Not a number but a mixture of many normal distributions.

Each part of the mixture is a `torch.distributions.Normal` of its own, which is asked in a loop. How many
parts there are is the dose. A perfect diagnosis: launch-bound, by many tiny kernels, forward and backward
(any line marked below). Fix: one distribution of all parts.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter, beside_orders_s
from torch import nn
from torch.distributions import Normal

GAUGES, LAST = 72, 32


class LagoonNet(nn.Module):
    """Foretells all gauges at once, and the lagoon itself for the last rows."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.gauges = nn.Linear(GAUGES, width), nn.Linear(width, GAUGES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.parts = nn.Linear(width, 1)

    def forward(self, past):
        h = self.enter(past)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.gauges(h).float(), self.parts(h[-LAST:]).float()


class Mixture(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.shift = nn.Parameter(torch.linspace(-2, 2, parts))
        self.spread, self.weight = nn.Parameter(torch.zeros(parts)), nn.Parameter(torch.zeros(parts))

    def in_a_loop(self, centre, level):
        likely = []
        parts = zip(
            self.shift.unbind(), self.spread.unbind(), self.weight.log_softmax(0).unbind(), strict=True
        )
        for shift, spread, weight in parts:
            part = Normal(centre + shift, spread.exp(), validate_args=False)  # planted
            likely.append(weight + part.log_prob(level))  # planted
        return torch.cat(likely, 1).logsumexp(1)

    def at_once(self, centre, level):
        parts = Normal(centre + self.shift, self.spread.exp(), validate_args=False)
        return (self.weight.log_softmax(0) + parts.log_prob(level)).logsumexp(1)


class Forecast:
    def __init__(self, meter, parts):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.net = LagoonNet(*meter.pick((4096, 5), (96, 3))).to(meter.device)
        self.mix(parts)
        self.past = torch.randn(rows, GAUGES, device=meter.device)
        self.level = torch.randn(LAST, 1, device=meter.device)

    def mix(self, parts):
        self.mixture = Mixture(parts).to(self.meter.device)
        weights = [*self.net.parameters(), *self.mixture.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=self.meter.gpu)

    def step(self, looped=False):
        with self.meter.autocast():
            gauges, centre = self.net(self.past)
        likelihood = self.mixture.in_a_loop if looped else self.mixture.at_once
        loss = F.mse_loss(gauges, self.past.roll(-1, 0)) - likelihood(centre, self.level).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def part_s(meter):
    """What one part more costs the host, forward and backward."""
    mixture = Mixture(48).to(meter.device)
    centre, level = torch.zeros(2, LAST, 1, device=meter.device).requires_grad_()
    return meter.timed_s(lambda: mixture.in_a_loop(centre, level).sum().backward(), calls=6) / 48


def main():
    meter, parts = Meter(__doc__), 4
    forecast = Forecast(meter, parts)
    meter.calibrate(forecast.step)
    if meter.dose:
        wanted_s = beside_orders_s(meter, forecast.step, meter.host_s)
        parts = max(4, round(wanted_s / part_s(meter)))
        forecast.mix(parts)
    while meter.going_on():
        forecast.step(looped=meter.sick)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
