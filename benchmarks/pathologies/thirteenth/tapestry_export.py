"""Worn threads of tapestries, by a net with a frozen part that knows dyes; both are exported when it begins.

The exporter takes the frozen part to the CPU, to try it there, and leaves it there; somebody mended the
error that followed. How many patches it is asked about is the dose. A perfect diagnosis: a part of the
model computes on the CPU (either line marked below), and the GPU waits. Fix: back to where it was.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SPECTRUM, DYES, FEWEST = 96, 24, 16


class DyeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(SPECTRUM, 1024), nn.SiLU(), nn.Linear(1024, 1024), nn.SiLU(), nn.Linear(1024, DYES)
        )

    def forward(self, spectra):
        return self.layers(spectra).softmax(1)


class ThreadNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.dyes = DyeNet().requires_grad_(False)
        self.enter, self.worn = nn.Linear(SPECTRUM, width), nn.Linear(width, DYES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def dyed(self, spectra):
        device = next(self.dyes.parameters()).device
        return self.dyes(spectra.to(device)).to(spectra.device)  # planted

    def forward(self, spectra):
        h = self.enter(spectra)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.worn(h).float()


class Exporter:
    """Writes what is served later."""

    def __init__(self, folder, tidy):
        self.path, self.tidy = Path(folder, "dyes.pt"), tidy

    def on_fit_start(self, net):
        before = next(net.dyes.parameters()).device
        told = net.dyes.cpu()(torch.rand(4, SPECTRUM))  # planted
        torch.save({"weights": net.dyes.state_dict(), "example": told}, self.path)
        if self.tidy:
            net.dyes.to(before)


class Workshop:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.net = ThreadNet(*meter.pick((4096, 5), (96, 3))).to(meter.device)
        learning = [weight for weight in self.net.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(learning, 1e-5, fused=meter.gpu)
        self.spectra = torch.rand(rows, SPECTRUM, device=meter.device)
        self.patches = torch.rand(FEWEST, SPECTRUM, device=meter.device)

    def step(self):
        dyes = self.net.dyed(self.patches).float()
        with self.meter.autocast():
            worn = self.net(self.spectra)
        rows = min(len(dyes), len(worn))
        loss = F.cross_entropy(worn[:rows], dyes[:rows]) + 1e-4 * worn.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def patch_s(meter):
    dyes, times = DyeNet(), []
    with torch.no_grad():
        for count in (256, 2304):
            spectra = torch.rand(count, SPECTRUM)
            times.append(meter.timed_s(lambda s=spectra: dyes(s), calls=8))
    return max(1e-8, (times[1] - times[0]) / 2048)


def main():
    meter = Meter(__doc__)
    workshop = Workshop(meter)
    with tempfile.TemporaryDirectory() as folder:
        Exporter(folder, tidy=True).on_fit_start(workshop.net)
        meter.calibrate(workshop.step)
        if meter.dose:
            count = max(FEWEST, round(meter.added_s / patch_s(meter)))
            workshop.patches = torch.rand(count, SPECTRUM, device=meter.device)
        Exporter(folder, tidy=not meter.sick).on_fit_start(workshop.net)
        while meter.going_on():
            workshop.step()
            meter.ticked()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
