"""The load of a power grid, foreseen by a graph net; a table of random walks is no buffer of the net.

`.to(device)` does not move it with the net, so the forward pass does, each time; how long the walks are is
the dose. A perfect diagnosis: large blocking copies to the GPU, in the midst of the forward pass (marked
below). Fix: the table is a buffer.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

READINGS = 24


def random_walks(buses, lengths):
    """The chance to get from one bus to another, for walks of each length; two patterns in turn."""
    first = torch.rand(buses, buses).softmax(1)
    return torch.stack([first, first.T.contiguous()]).repeat(-(-lengths // 2), 1, 1)[:lengths].contiguous()


class GridNet(nn.Module):
    def __init__(self, buses, width, depth):
        super().__init__()
        self.enter, self.ahead = nn.Linear(READINGS, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.use_walks(random_walks(buses, 2))

    def use_walks(self, walks):
        self.walks = walks
        self.shares = torch.full((len(walks),), 1 / len(walks), device=self.enter.weight.device)

    def forward(self, load):
        walks = self.walks.to(load.device)  # planted
        spread = torch.tensordot(self.shares, walks, 1)
        h = self.enter(load)
        for layer in self.body:
            h = h + F.gelu(layer(spread @ h))
        return self.ahead(h).float()[..., 0]


class Forecast:
    def __init__(self, meter):
        self.meter, (batch, self.buses, width, depth) = (
            meter,
            meter.pick((32, 256, 4096, 5), (4, 16, 64, 2)),
        )
        self.net = GridNet(self.buses, width, depth).to(meter.device)
        self.net.use_walks(self.net.walks.to(meter.device))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.load = torch.rand(batch, self.buses, READINGS, device=meter.device)
        self.truth = torch.rand(batch, self.buses, device=meter.device)

    def step(self):
        with self.meter.autocast():
            guess = self.net(self.load)
        loss = F.mse_loss(guess, self.truth)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def length_s(forecast):
    """One length of walk more, moved from ordinary memory."""
    probe = random_walks(forecast.buses, 128)
    return forecast.meter.timed_s(lambda: probe.to(forecast.meter.device, copy=True), calls=5) / 128


def main():
    meter = Meter(__doc__)
    forecast = Forecast(meter)
    meter.calibrate(forecast.step)
    lengths = max(2, round(meter.added_s / length_s(forecast))) if meter.dose else 2
    walks = random_walks(forecast.buses, lengths)
    forecast.net.use_walks(walks if meter.sick else walks.to(meter.device))
    while meter.going_on():
        forecast.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
