"""Pictures learn to resemble themselves: two views of each, by a list of random changes, and NT-Xent.

The loader has one worker, which makes all views. How many changes a view goes through is the dose. A
perfect diagnosis: too few workers, while there is still room on the cores (marked below). Fix: two.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

SIDE, STORED, PICTURES, BATCH = 32, 40, 200, 20


def jitter(view, rng):
    return (view - view.mean()) * rng.uniform(0.6, 1.4) + rng.uniform(0.3, 0.7)


def grey(view, rng):
    share = rng.random()
    return (1 - share) * view + share * view.mean(2, keepdims=True)


def blur(view, rng):
    return (view + np.roll(view, 1, int(rng.integers(2)))) / 2


def erase(view, rng):
    y, x = rng.integers(0, SIDE - 8, 2)
    view = view.copy()
    view[y : y + 8, x : x + 8] = rng.random(3)
    return view


def noise(view, rng):
    return view + rng.normal(0, 0.03, view.shape).astype(np.float32)


CHANGES = (jitter, grey, blur, erase, noise)


class TwoViews:
    """Calls a transform twice, as it is done for contrastive learning."""

    def __init__(self, changes):
        self.changes, self.rng = changes, np.random.default_rng(0)

    def one(self, picture):
        y, x = self.rng.integers(0, STORED - SIDE, 2)
        view = picture[y : y + SIDE, x : x + SIDE]
        if self.rng.random() < 0.5:
            view = view[:, ::-1]
        for number in range(self.changes):
            view = CHANGES[number % len(CHANGES)](view, self.rng)
        return np.ascontiguousarray(view.clip(0, 1).transpose(2, 0, 1), dtype=np.float32)

    def __call__(self, picture):
        return self.one(picture), self.one(picture)


class Pictures(Dataset):
    def __init__(self, transform):
        self.transform = transform
        self.pictures = np.random.default_rng(1).random((PICTURES, STORED, STORED, 3), dtype=np.float32)

    def __len__(self):
        return 90_000

    def __getitem__(self, index):
        return self.transform(self.pictures[index % PICTURES])


class SimCLR(nn.Module):
    def __init__(self, width=14, size=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.projector = nn.Sequential(nn.Linear(16 * width, 128), nn.ReLU(), nn.Linear(128, size))
        self.temperature = 0.5

    def forward(self, first, second):
        z = F.normalize(self.projector(self.encoder(torch.cat([first, second]))), dim=1)
        alike = z @ z.T / self.temperature
        alike.fill_diagonal_(-1e9)
        partner = torch.arange(len(z), device=z.device).roll(len(first))
        return F.cross_entropy(alike, partner)


class Pretraining:
    def __init__(self, meter):
        self.meter, self.model = meter, SimCLR().to(meter.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    def update(self, first, second):
        loss = self.model(first.to(self.meter.device), second.to(self.meter.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def loader(self, changes, workers=1):
        return DataLoader(Pictures(TwoViews(changes)), BATCH, True, num_workers=workers)  # planted

    def run(self, loader):
        batches = iter(loader)
        for _ in range(3):
            self.update(*next(batches))
        while self.meter.going_on():
            with self.meter.injecting():
                views = next(batches)
            self.update(*views)
            self.meter.ticked()
        self.meter.report()


def main():
    meter = Meter(__doc__)
    pretraining, blank = Pretraining(meter), torch.rand(BATCH, 3, SIDE, SIDE)
    meter.calibrate(lambda: pretraining.update(blank, blank))
    changes = 1
    if meter.dose:

        def joined(changes):
            pictures = Pictures(TwoViews(changes))
            return lambda: default_collate([pictures[number] for number in range(BATCH)])

        changes = amount_taking(meter, joined, 1, 31, meter.beside_s, calls=6)
    healthy = meter.dose and not meter.sick
    pretraining.run(pretraining.loader(changes, **({"workers": 2} if healthy else {})))


if __name__ == "__main__":
    main()
