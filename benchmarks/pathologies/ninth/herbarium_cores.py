"""Plants on herbarium sheets; every core has a loader worker, and each of them smooths whole sheets.

Only then a sheet is shrunk to what the net sees. How often it is smoothed is the dose. A perfect diagnosis:
no core is left for loading, more workers would not help; the work for a sample must become less (marked
below). Fix: shrink first.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SHEET, SMALL, SPECIES = 128, 32, 200


def shrunk(sheet):
    step = sheet.shape[1] // SMALL
    return sheet[:, ::step, ::step]


class Herbarium(Dataset):
    def __init__(self, rounds=1, shrink_first=True):
        rng = np.random.default_rng(0)
        self.sheets = rng.random((8, 3, SHEET, SHEET), dtype=np.float32)
        self.rounds, self.shrink_first = rounds, shrink_first

    def __len__(self):
        return 1_000_000

    def smooth(self, sheet):
        for _ in range(self.rounds):
            sheet = 0.5 * sheet + 0.25 * (np.roll(sheet, 1, 2) + np.roll(sheet, -1, 2))  # planted
        return sheet

    def __getitem__(self, index):
        sheet = self.sheets[index % len(self.sheets)]
        small = self.smooth(shrunk(sheet)) if self.shrink_first else shrunk(self.smooth(sheet))
        return torch.from_numpy(np.ascontiguousarray(small)), index % SPECIES


class PlantNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 2, stride=2)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.species = nn.Linear(width, SPECIES)

    def forward(self, sheets):
        h = self.stem(sheets)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.species(h.mean((2, 3))).float()


def main():
    meter = Meter(__doc__)
    batch, cores = meter.pick(128, 8), len(os.sched_getaffinity(0))
    net = PlantNet(*meter.pick((512, 8), (40, 4))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(sheets, species):
        sheets = sheets.to(meter.device, non_blocking=True).contiguous(memory_format=torch.channels_last)
        species = species.to(meter.device, non_blocking=True)
        with meter.autocast():
            scores = net(sheets)
        loss = F.cross_entropy(scores, species)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, 3, SMALL, SMALL), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    herbarium = Herbarium(shrink_first=not meter.sick)
    if meter.dose:
        whole = Herbarium(rounds=8, shrink_first=False)
        round_s = meter.timed_s(lambda: whole[1], calls=5) / 8
        # Without a GPU the training needs one of the cores for itself.
        herbarium.rounds = max(1, round(meter.pick(cores, 1) * meter.beside_s / batch / round_s))
    options = {"num_workers": cores, "pin_memory": meter.gpu}
    stream = iter(DataLoader(herbarium, batch, **options))
    for _ in range(cores):
        learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            batch_now = next(stream)
        learn(*batch_now)
        meter.ticked()
    meter.report(excess=True)
    del stream


if __name__ == "__main__":
    main()
