"""How glazes come out of kilns, foretold by a net with frozen experts of other potteries.

The experts are kept in a plain list, so `.to(device)` does not find them; somebody mended the error that
followed where it arose. Of how many glazes they are asked is the dose. A perfect diagnosis: a part of the
model computes on the CPU (any line marked below), and the GPU waits. Fix: an `nn.ModuleList`.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

OXIDES, OPINION, EXPERTS = 48, 16, 4


def expert():
    layers = nn.Sequential(
        nn.Linear(OXIDES, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, OPINION)
    )
    return layers.requires_grad_(False)


class Experts(nn.Module):
    """The mean of what they say about the first glazes."""

    def __init__(self, as_list):
        super().__init__()
        experts = [expert() for _ in range(EXPERTS)]
        self.experts = experts if as_list else nn.ModuleList(experts)  # planted

    def forward(self, glazes):
        device = next(self.experts[0].parameters()).device
        asked = glazes.to(device)  # planted
        told = torch.stack([expert(asked) for expert in self.experts]).mean(0)  # planted
        return told.to(glazes.device, glazes.dtype)


class GlazeNet(nn.Module):
    def __init__(self, experts, width, depth):
        super().__init__()
        self.experts, self.asked = experts, 32
        self.enter, self.leave = nn.Linear(OXIDES, width), nn.Linear(width, OPINION)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, glazes):
        told = self.experts(self.some(glazes))
        h = self.enter(glazes)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h).float(), told.float()

    def some(self, glazes):
        """As many as are asked for, some of them again if there are too few."""
        return glazes.repeat(-(-self.asked // len(glazes)), 1)[: self.asked]


class Pottery:
    def __init__(self, meter, as_list):
        self.meter, rows = meter, meter.pick(8192, 48)
        self.net = GlazeNet(Experts(as_list), *meter.pick((4096, 5), (96, 3))).to(meter.device)
        learning = [weight for weight in self.net.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(learning, 1e-5, fused=meter.gpu)
        self.glazes = torch.rand(rows, OXIDES, device=meter.device)

    def step(self):
        with self.meter.autocast():
            guess, told = self.net(self.glazes)
        rows = min(len(guess), len(told))
        loss = F.mse_loss(guess[:rows], told[:rows]) + 1e-4 * guess.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def glaze_s(meter):
    """One glaze more, for experts on the CPU."""
    experts, times = Experts(as_list=True), []
    with torch.no_grad():
        for count in (256, 2304):
            glazes = torch.rand(count, OXIDES)
            times.append(meter.timed_s(lambda g=glazes: experts(g), calls=8))
    return max(1e-8, (times[1] - times[0]) / 2048)


def main():
    meter = Meter(__doc__)
    healthy, asked = Pottery(meter, as_list=False), 32
    meter.calibrate(healthy.step)
    if meter.dose:
        asked = max(asked, round(meter.added_s / glaze_s(meter)))
    pottery = Pottery(meter, as_list=True) if meter.sick else healthy
    pottery.net.asked = asked
    while meter.going_on():
        pottery.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
