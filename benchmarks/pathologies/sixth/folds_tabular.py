"""Cross-validation on a table of loans: for each fold a fresh net, and for each short epoch fresh workers.

How few batches an epoch has is the dose. A perfect diagnosis: the loader's processes are started anew at the
edge of every epoch, and the training waits for them (marked below). Fix: workers that stay.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

COLUMNS, FOLDS, EPOCHS = 40, 5, 30


class Loans(Dataset):
    def __init__(self, rows):
        rng = np.random.default_rng(0)
        self.table = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
        self.paid = (self.table[:, 0] > 0).astype(np.float32)

    def __len__(self):
        return len(self.table)

    def __getitems__(self, rows):
        return self.table[rows], self.paid[rows]


def as_tensors(columns):
    return tuple(map(torch.from_numpy, columns))


def folds(rows):
    """Rows to train on, fold after fold, again and again."""
    while True:
        order = np.random.default_rng(1).permutation(rows)
        for held_out in np.array_split(order, FOLDS):
            yield np.setdiff1d(order, held_out)


class CrossValidation:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(8192, 128)
        self.new_net()

    def new_net(self):
        width, depth = self.meter.pick((4096, 5), (512, 8))
        with self.meter.device:
            layers = [nn.Linear(COLUMNS, width), nn.GELU()]
            for _ in range(depth):
                layers += [nn.Linear(width, width), nn.GELU()]
            self.net = nn.Sequential(*layers, nn.Linear(width, 1))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=self.meter.gpu)

    def learn(self, rows, paid):
        rows, paid = (t.to(self.meter.device, non_blocking=True) for t in (rows, paid))
        with self.meter.autocast():
            score = self.net(rows)[:, 0]
        loss = F.binary_cross_entropy_with_logits(score.float(), paid)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def loader(self, rows, stay):
        return DataLoader(
            rows,
            self.batch,
            shuffle=True,
            drop_last=True,
            collate_fn=as_tensors,
            num_workers=self.meter.pick(6, 1),
            pin_memory=self.meter.gpu,
            persistent_workers=stay,
        )

    def fit(self, loans, stay):
        for fold in folds(len(loans)):
            loader = self.loader(Subset(loans, fold.tolist()), stay)
            self.new_net()
            for _ in range(EPOCHS):
                for rows, paid in loader:  # planted
                    if not self.meter.going_on():
                        return
                    self.learn(rows, paid)
                    self.meter.ticked()


def epoch_s(cv):
    """What an epoch costs beside its batches."""
    one = cv.loader(Loans(cv.batch), stay=False)
    begin_s = time.perf_counter()
    for _ in range(4):
        list(one)
    return (time.perf_counter() - begin_s) / 4


def main():
    meter = Meter(__doc__)
    cv = CrossValidation(meter)
    blank = blanks(meter, torch.zeros(cv.batch, COLUMNS), torch.zeros(cv.batch))
    meter.calibrate(lambda: cv.learn(*blank))
    batches = max(2, round(epoch_s(cv) / meter.added_s)) if meter.dose else 60
    loans = Loans(cv.batch * batches * FOLDS // (FOLDS - 1) + FOLDS)
    cv.fit(loans, stay=not meter.sick)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
