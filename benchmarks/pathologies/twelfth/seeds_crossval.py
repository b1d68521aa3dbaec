"""Will a seed sprout? A net for tables, judged by cross-validation: every fold has a loader of its own.

A row is a lot of seeds of one field. How few batches a fold has is the dose. A perfect diagnosis: worker
processes are started anew for each fold, and the training waits for them (at the loader or the loop, both
marked). Fix: the folds are made of the sampler's numbers, and one loader's workers stay.
"""

import time
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

COLUMNS, FIELDS, FOLDS = 30, 1024, 5


class Seeds(Dataset):
    def __init__(self, lot):
        self.table = np.random.default_rng(0).standard_normal((FIELDS, lot, COLUMNS), dtype=np.float32)

    def __len__(self):
        return FIELDS

    def __getitem__(self, index):
        lot = self.table[index]
        return lot, (lot[:, 0] > 0.2).astype(np.float32)


class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.both = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.join = nn.Linear(2 * width, width)

    def forward(self, h):
        value, gate = self.both(self.norm(h)).chunk(2, -1)
        return h + self.join(value * F.silu(gate))


class FoldSampler(Sampler):
    """Rows of the fold whose turn it is."""

    def __init__(self, folds):
        self.folds = deque(folds)

    def __len__(self):
        return len(self.folds[0])

    def __iter__(self):
        self.folds.rotate(-1)
        return iter(self.folds[0])


class CrossValidation:
    def __init__(self, meter):
        self.meter, (self.batch, self.lot) = meter, meter.pick((64, 128), (8, 6))
        width, depth = meter.pick((2048, 3), (160, 4))
        layers = nn.Linear(COLUMNS, width), *(GatedBlock(width) for _ in range(depth)), nn.Linear(width, 1)
        self.seeds, self.net = Seeds(self.lot), nn.Sequential(*layers).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.options = {"num_workers": meter.pick(6, 1), "pin_memory": meter.gpu}

    def learn(self, lots, sprouted):
        lots, sprouted = (part.to(self.meter.device, non_blocking=True) for part in (lots, sprouted))
        with self.meter.autocast():
            scores = self.net(lots)[..., 0]
        loss = F.binary_cross_entropy_with_logits(scores.float(), sprouted)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def folds(self, batches):
        return [[(fold + FOLDS * n) % FIELDS for n in range(batches * self.batch)] for fold in range(FOLDS)]

    def fold_loader(self, rows):
        return DataLoader(Subset(self.seeds, rows), self.batch, shuffle=True, **self.options)  # planted

    def one_pass(self, loader):
        losses = []
        for lots, sprouted in loader:  # planted
            losses.append(self.learn(lots, sprouted))
            self.meter.ticked()
            if not self.meter.going_on():
                break
        return torch.stack(losses).mean().item()

    def run_fold_by_fold(self, folds):
        return [self.one_pass(self.fold_loader(rows)) for rows in folds if self.meter.going_on()]

    def start_s(self):
        begin_s = time.perf_counter()
        for _ in range(5):
            list(self.fold_loader(range(self.batch)))
        return (time.perf_counter() - begin_s) / 5


def main():
    meter = Meter(__doc__)
    validation, batches = CrossValidation(meter), 80
    size = validation.batch, validation.lot
    blank = blanks(meter, torch.zeros(*size, COLUMNS), torch.zeros(size))
    meter.calibrate(lambda: validation.learn(*blank))
    if meter.dose:
        batches = max(2, round(validation.start_s() / meter.added_s))
    folds = validation.folds(batches)
    stay = {"sampler": FoldSampler(folds), "persistent_workers": True, **validation.options}
    kept = DataLoader(validation.seeds, validation.batch, **stay)
    while meter.going_on():
        if meter.sick:
            validation.run_fold_by_fold(folds)
        else:
            validation.one_pass(kept)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
