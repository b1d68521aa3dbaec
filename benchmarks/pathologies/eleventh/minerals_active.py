"""Minerals by their spectra, with active learning: after each round a few more are labelled.

The trainer makes its loader anew for each round, as the data has changed. How few steps a round has is the
dose. A perfect diagnosis: worker processes are started at the edge of each round, and the training waits (at
the loader or the loop, both marked). Fix: one loader with workers that stay; what is labelled is the
sampler's business.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

CHANNELS, MINERALS = 256, 12


class Spectra(Dataset):
    def __init__(self, rows):
        self.rows = rows
        self.spectra = np.random.default_rng(0).random((512, CHANNELS), dtype=np.float32)

    def __len__(self):
        return 512

    def __getitem__(self, number):
        """A measurement is repeated under several angles."""
        gains = np.linspace(0.9, 1.1, self.rows, dtype=np.float32)[:, None]
        return torch.from_numpy(gains * self.spectra[number]), number % MINERALS


class Labelled(Sampler):
    """So many of those that have a label, in any order."""

    def __init__(self, count):
        self.count, self.pool = count, list(range(64))

    def label_more(self):
        self.pool.append(len(self.pool) % 512)

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter(np.random.default_rng().choice(self.pool, self.count).tolist())


class SpectrumNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.mineral = nn.Linear(CHANNELS, width), nn.Linear(width, MINERALS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, spectra):
        h = self.enter(spectra)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.mineral(h.mean(1)).float()


class ActiveTrainer:
    def __init__(self, meter, reload_each_round):
        self.meter, self.reload = meter, reload_each_round
        self.batch, self.rows = meter.pick((64, 128), (8, 8))
        self.net = SpectrumNet(*meter.pick((4096, 5), (384, 6))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.kept = None

    def make_loader(self, labelled):
        workers = {"num_workers": self.meter.pick(6, 1), "persistent_workers": not self.reload}
        options = {"sampler": labelled, "pin_memory": self.meter.gpu, **workers}
        return DataLoader(Spectra(self.rows), self.batch, **options)  # planted

    def loader(self, labelled):
        if self.reload or self.kept is None:
            self.kept = self.make_loader(labelled)
        return self.kept

    def step(self, spectra, minerals):
        spectra, minerals = (part.to(self.meter.device, non_blocking=True) for part in (spectra, minerals))
        with self.meter.autocast():
            scores = self.net(spectra)
        loss = F.cross_entropy(scores, minerals)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def fit(self, labelled):
        while self.meter.going_on():
            for spectra, minerals in self.loader(labelled):  # planted
                self.step(spectra, minerals)
                self.meter.ticked()
                if not self.meter.going_on():
                    return
            labelled.label_more()


def times_s(trainer, blank):
    """What a round's start costs, and how far ahead of the GPU the host is after a step."""
    begin_s = time.perf_counter()
    for _ in range(4):
        list(trainer.make_loader(Labelled(trainer.batch)))
    start_s = (time.perf_counter() - begin_s) / 4
    trainer.meter.sync()
    begin_s = time.perf_counter()
    for _ in range(3):
        trainer.step(*blank)
    launch_s = (time.perf_counter() - begin_s) / 3
    return start_s, max(0.0, trainer.meter.healthy_s - launch_s) if trainer.meter.gpu else 0.0


def main():
    meter = Meter(__doc__)
    trainer, steps = ActiveTrainer(meter, reload_each_round=meter.sick), 200
    spectra = torch.zeros(trainer.batch, trainer.rows, CHANNELS)
    blank = blanks(meter, spectra, torch.zeros(trainer.batch, dtype=torch.long))
    meter.calibrate(lambda: trainer.step(*blank))
    if meter.dose:
        start_s, ahead_s = times_s(trainer, blank)
        steps = max(2, round(start_s / (meter.added_s + ahead_s)))
    trainer.fit(Labelled(steps * trainer.batch))
    meter.report(excess=True)


if __name__ == "__main__":
    main()
