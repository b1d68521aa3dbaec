"""Healthy control: species from features of photographs, loaded by the training process itself.

Tempting: the loader has no workers, and the training thread spends a good part of its time in it; but the
GPU has a step's work queued by then, and is never without. A perfect diagnosis: healthy, nothing to mend.
The dose is taken and does nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPECIES, FEATURES = 500, 256


class Photographs(Dataset):
    """Rows of a table in memory; a batch is one block of it, with some of its features hidden."""

    def __init__(self, rows, hidden):
        rng = np.random.default_rng(0)
        self.table = rng.standard_normal((4 * rows, FEATURES), dtype=np.float32)
        self.rows, self.hidden = rows, hidden

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        rng = np.random.default_rng(number)
        start = int(rng.integers(0, 3 * self.rows))
        block = self.table[start : start + self.rows].copy()
        for column in rng.integers(0, FEATURES, self.hidden):
            block[:, column] = 0
        return torch.from_numpy(block), torch.from_numpy(rng.integers(0, SPECIES, self.rows))


class Classifier(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(FEATURES, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, SPECIES)

    def forward(self, x):
        h = self.enter(x)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(self.norm(h))


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 256)
    model = Classifier(*meter.pick((4096, 8), (128, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=meter.gpu)

    def learn(photographs, species):
        photographs = photographs.to(meter.device, non_blocking=True)
        species = species.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(model(photographs), species)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    loader = DataLoader(Photographs(rows, meter.pick(16, 0)), batch_size=None, pin_memory=meter.gpu)
    batches = iter(loader)
    meter.calibrate(lambda: learn(*next(batches)))
    while meter.going_on():
        learn(*next(batches))
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
