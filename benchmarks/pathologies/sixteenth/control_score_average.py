"""Healthy control: shapes of molecules by a score-based diffusion; weights are averaged and saved at times.

Tempting: garbage is collected by hand, weights are averaged in every step, a file is written, and samples
are drawn; but all of it is seldom, or one call. A perfect diagnosis: healthy, nothing to mend. The dose is
taken and does nothing; there is no planted line.
"""

import copy
import gc
import tempfile
from pathlib import Path

import torch
from stopwatch import Meter
from torch import nn

ATOMS, BATCH, SAVE_EVERY, DRAW_EVERY, STEPS = 9, 40, 400, 300, 8


class ScoreNet(nn.Module):
    """Every atom is moved by all others, the less the farther they are."""

    def __init__(self, size=128):
        super().__init__()
        self.level = nn.Sequential(nn.Linear(1, size), nn.SiLU(), nn.Linear(size, size))
        self.pair = nn.Sequential(nn.Linear(2, size), nn.SiLU())
        self.weigh = nn.Sequential(nn.Linear(size, size), nn.SiLU(), nn.Linear(size, 1))

    def forward(self, places, noise):
        way = places[:, :, None] - places[:, None]
        far = way.square().sum(3, keepdim=True)
        h = self.pair(torch.cat([far, 1 / (1 + far)], 3)) + self.level(noise.log())[:, None, None]
        return (self.weigh(h) * way).mean(2) / noise[:, None]


class Averaged:
    def __init__(self, net, decay=0.999):
        self.net, self.decay = copy.deepcopy(net).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, net):
        torch._foreach_lerp_(list(self.net.parameters()), list(net.parameters()), 1 - self.decay)

    @torch.no_grad()
    def draw(self, places):
        for noise in torch.logspace(0.5, -2, STEPS).tolist():
            level = places.new_full((len(places), 1), noise)
            places = (
                places + 0.5 * noise**2 * self.net(places, level) + 0.1 * noise * torch.randn_like(places)
            )
        return places


def main():
    meter = Meter(__doc__)
    net = ScoreNet().to(meter.device)
    averaged, optimizer = Averaged(net), torch.optim.Adam(net.parameters(), lr=5e-4)
    molecules = torch.randn(20, BATCH, ATOMS, 3, device=meter.device)

    def step():
        clean = molecules[meter.ticks % len(molecules)]
        noise = 10 ** (torch.rand(BATCH, 1, device=meter.device) * 2.5 - 2)
        moved = torch.randn_like(clean)
        score = net(clean + noise[:, None] * moved, noise)
        loss = (noise[:, None] * score + moved).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update(net)

    meter.calibrate(step)
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        drawn = 0.0
        while meter.going_on():
            step()
            meter.ticked()
            if meter.ticks % DRAW_EVERY == 0:
                drawn = float(averaged.draw(molecules[0, :4]).std())
            if meter.ticks % SAVE_EVERY == 0:
                torch.save({"net": averaged.net.state_dict(), "drawn": drawn}, Path(folder) / "score.pt")
                gc.collect()
        meter.report()


if __name__ == "__main__":
    main()
