"""How much grows on a field? Five folds, each with a net of its own, are gone through in turn, pass by pass.

A pass makes a loader, whose workers start and end with it. How short a pass is, is the dose. A perfect
diagnosis: workers are restarted at every epoch's edge (any line marked below). Fix: each fold keeps its
loader, whose worker stays.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset

FIELDS, SOIL, BATCH, FOLDS = 4000, 40, 64, 5


class Soil(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.soil = rng.normal(size=(FIELDS, SOIL)).astype(np.float32)
        self.grown = self.soil[:, :4].sum(1) + rng.normal(0, 0.1, FIELDS).astype(np.float32)

    def __len__(self):
        return FIELDS

    def __getitem__(self, index):
        return self.soil[index], self.grown[index]


class TabNet(nn.Module):
    """Columns are chosen softly, again and again, as trees would choose them."""

    def __init__(self, size=512, rounds=3):
        super().__init__()
        self.choose = nn.ModuleList(nn.Linear(SOIL, SOIL) for _ in range(rounds))
        self.learners = nn.ModuleList(
            nn.Sequential(nn.Linear(SOIL, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU())
            for _ in range(rounds)
        )
        self.out = nn.Linear(size, 1)

    def forward(self, soil):
        grown = 0
        for choose, learner in zip(self.choose, self.learners, strict=True):
            grown = grown + self.out(learner(soil * choose(soil).softmax(1) * SOIL))[:, 0]
        return grown


@dataclass
class Fold:
    train: Subset
    net: TabNet
    optimizer: torch.optim.Optimizer = None
    loader: DataLoader = None
    history: list = field(default_factory=list)

    def __post_init__(self):
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def fit(self, soil, grown):
        loss = F.huber_loss(self.net(soil), grown)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class CrossValidation:
    def __init__(self, device, keep_loaders):
        soil, parts = Soil(), np.array_split(np.random.default_rng(1).permutation(FIELDS), FOLDS)
        self.device, self.keep_loaders = device, keep_loaders
        rest = [np.concatenate([part for part in parts if part is not left_out]) for left_out in parts]
        self.folds = [Fold(Subset(soil, rows.tolist()), TabNet().to(device)) for rows in rest]

    def make_loader(self, fold, steps):
        sampler = RandomSampler(fold.train, replacement=True, num_samples=steps * BATCH)
        stays = self.keep_loaders
        return DataLoader(
            fold.train, BATCH, sampler=sampler, num_workers=1, persistent_workers=stays
        )  # planted

    def one_pass(self, fold, steps):
        loader = fold.loader or self.make_loader(fold, steps)  # planted
        if self.keep_loaders:
            fold.loader = loader
        for soil, grown in loader:  # planted
            yield fold.fit(soil.to(self.device), grown.to(self.device))

    def passes(self, steps):
        while True:
            for fold in self.folds:
                losses = []
                for loss in self.one_pass(fold, steps):
                    losses.append(loss)
                    yield fold
                fold.history.append(float(torch.stack(losses).mean()))


def main():
    meter, steps = Meter(__doc__), 500
    study = CrossValidation(meter.device, keep_loaders=not meter.sick)
    blank = torch.rand(BATCH, SOIL, device=meter.device), torch.rand(BATCH, device=meter.device)
    meter.calibrate(lambda: study.folds[0].fit(*blank))
    if meter.dose:
        probe = CrossValidation(meter.device, keep_loaders=False)
        whole_s = meter.timed_s(lambda: list(probe.one_pass(probe.folds[0], 3)), calls=6)
        steps = max(2, round((whole_s - 3 * meter.healthy_s) / meter.added_s))
    stream = study.passes(steps)
    for _ in range(FOLDS * steps if steps < 100 and not meter.sick else 1):
        next(stream)
    while meter.going_on():
        next(stream)
        meter.ticked()
    meter.report(excess=True)
    stream.close()


if __name__ == "__main__":
    main()
