"""A radiance field whose density network is kept out of autocast, to be on the safe side.

How deep that network is is the dose. A perfect diagnosis: matrix products in full fp32, without tensor
cores (marked below). Fix: the density under autocast too.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

OCTAVES = 10


def encoded(x):
    scaled = x[..., None] * 2.0 ** torch.arange(OCTAVES, device=x.device)
    return torch.cat([scaled.sin(), scaled.cos()], -1).flatten(-2)


class Field(nn.Module):
    def __init__(self, width, depth, fine_width, safe):
        super().__init__()
        self.safe, self.fine_width = safe, fine_width
        self.enter = nn.Linear(6 * OCTAVES, width)
        self.colour = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.rgb, self.narrow = nn.Linear(width, 3), nn.Linear(width, fine_width)
        self.density, self.sigma = nn.ModuleList(), nn.Linear(fine_width, 1)

    def deepen(self, layers):
        device = self.sigma.weight.device
        self.density.extend(nn.Linear(self.fine_width, self.fine_width, device=device) for _ in range(layers))

    def sigma_of(self, h):
        for layer in self.density:
            h = F.relu(layer(h))
        return F.softplus(self.sigma(h))

    def forward(self, points):
        h = F.relu(self.enter(encoded(points)))
        for layer in self.colour:
            h = F.relu(layer(h))
        seen = self.narrow(h)
        if self.safe:
            with torch.autocast(points.device.type, enabled=False):
                sigma = self.sigma_of(seen.float())  # planted
        else:
            sigma = self.sigma_of(seen)
        return self.rgb(h).sigmoid().float(), sigma.float()


def rendered(rgb, sigma, samples):
    alpha = 1 - torch.exp(-sigma.view(-1, samples) / samples)
    clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-6], 1), 1)[:, :-1]
    return ((alpha * clear)[..., None] * rgb.view(-1, samples, 3)).sum(1)


class Training:
    def __init__(self, meter):
        self.meter, (self.rays, self.samples) = meter, meter.pick((512, 32), (8, 8))
        self.field = Field(*meter.pick((2048, 8, 768), (32, 2, 16)), safe=meter.sick).to(meter.device)
        self.renew()
        self.points = torch.rand(self.rays * self.samples, 3, device=meter.device)
        self.pixels = torch.rand(self.rays, 3, device=meter.device)

    def renew(self):
        self.optimizer = torch.optim.Adam(self.field.parameters(), lr=5e-5, fused=self.meter.gpu)

    def step(self):
        with self.meter.autocast():
            rgb, sigma = self.field(self.points + 0.01 * torch.randn_like(self.points))
        loss = F.mse_loss(rendered(rgb, sigma, self.samples), self.pixels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def layer_s(meter, rows, width):
    """One layer in fp32, forward and backward."""
    layer = nn.Linear(width, width, device=meter.device)
    x = torch.randn(rows, width, device=meter.device, requires_grad=True)
    return meter.timed_s(lambda: layer(x).sum().backward(), calls=10)


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    meter.calibrate(training.step)
    if meter.dose:
        one_s = layer_s(meter, len(training.points), training.field.fine_width)
        training.field.deepen(max(1, round(1.15 * meter.added_s / one_s)))
        training.renew()
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
