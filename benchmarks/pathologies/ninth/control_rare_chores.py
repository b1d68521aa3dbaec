"""Healthy control: a rover sorts rocks; every five hundred steps it tidies up, with all that has a bad name.

Tempting: `empty_cache()`, `gc.collect()`, an evaluation and a checkpoint; but rarely, and they take a
hundredth of the time together. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import gc
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BANDS, ROCKS, RARELY = 32, 14, 500


class RockNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.rock = nn.Linear(BANDS, width), nn.Linear(width, ROCKS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, spectra):
        h = self.enter(spectra)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.rock(h).float()


class Rover:
    def __init__(self, meter, folder):
        self.meter, self.file, rows = meter, Path(folder, "rock.pt"), meter.pick(8192, 64)
        self.net = RockNet(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.spectra = torch.rand(rows, BANDS, device=meter.device)
        self.rocks = torch.randint(ROCKS, (rows,), device=meter.device)
        self.right = []

    def step(self):
        with self.meter.autocast():
            scores = self.net(self.spectra)
        loss = F.cross_entropy(scores, self.rocks)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        with self.meter.autocast():
            guess = self.net(self.spectra).argmax(1)
        self.right.append((guess == self.rocks).float().mean().item())

    def tidy_up(self):
        self.evaluate()
        torch.save(self.net.rock.state_dict(), self.file)
        gc.collect()
        if self.meter.gpu:
            torch.cuda.empty_cache()


def main():
    meter = Meter(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        rover = Rover(meter, folder)
        meter.calibrate(rover.step)
        while meter.going_on():
            rover.step()
            meter.ticked()
            if meter.ticks % RARELY == 0:
                rover.tidy_up()
        meter.report()


if __name__ == "__main__":
    main()
