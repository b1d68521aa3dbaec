"""Healthy control: a conditional GAN of measured spectra, two players with an optimizer each, and an average.

Its losses are read every hundred steps. A perfect diagnosis: healthy, nothing to mend. The dose is taken and
does nothing; there is no planted line.
"""

import copy

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

NOISE, MINERALS, CHANNELS = 64, 30, 512


class Player(nn.Module):
    def __init__(self, n_in, width, depth, n_out):
        super().__init__()
        self.mineral = nn.Embedding(MINERALS, width)
        self.enter, self.leave = nn.Linear(n_in, width), nn.Linear(width, n_out)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x, mineral):
        h = self.enter(x) + self.mineral(mineral)
        for layer in self.body:
            h = h + F.leaky_relu(layer(h), 0.2)
        return self.leave(h)


class SpectraGan:
    def __init__(self, meter):
        self.meter, shape, self.rows = meter, meter.pick((3072, 3), (128, 2)), meter.pick(8192, 128)
        self.forger = Player(NOISE, *shape, CHANNELS).to(meter.device)
        self.expert = Player(CHANNELS, *shape, 1).to(meter.device)
        self.smooth = copy.deepcopy(self.forger).requires_grad_(False)
        self.forger_opt, self.expert_opt = (
            torch.optim.Adam(player.parameters(), 1e-5, betas=(0.0, 0.9), fused=meter.gpu)
            for player in (self.forger, self.expert)
        )
        self.spectra = torch.rand(4 * self.rows, CHANNELS, device=meter.device)
        self.minerals = torch.randint(MINERALS, (4 * self.rows,), device=meter.device)
        self.steps, self.history = 0, []

    def step(self):
        start = self.steps % 4 * self.rows
        real, kind = (t[start : start + self.rows] for t in (self.spectra, self.minerals))
        noise = torch.randn(self.rows, NOISE, device=self.meter.device)
        with self.meter.autocast():
            forged = self.forger(noise, kind)
            seen = self.expert(real, kind), self.expert(forged.detach(), kind)
        expert_loss = F.relu(1 - seen[0].float()).mean() + F.relu(1 + seen[1].float()).mean()
        self.expert_opt.zero_grad(set_to_none=True)
        expert_loss.backward()
        self.expert_opt.step()
        with self.meter.autocast():
            forger_loss = -self.expert(forged, kind).float().mean()
        self.forger_opt.zero_grad(set_to_none=True)
        forger_loss.backward()
        self.forger_opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.smooth.parameters()), list(self.forger.parameters()), 0.001)
        self.steps += 1
        if self.steps % 100 == 0:
            self.history.append(torch.stack([expert_loss, forger_loss]).tolist())


def main():
    meter = Meter(__doc__)
    gan = SpectraGan(meter)
    meter.calibrate(gan.step)
    while meter.going_on():
        gan.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
