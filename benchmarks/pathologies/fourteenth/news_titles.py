"""To which section does a headline belong? Titles are bags of words, and an epoch is what came in since.

It ends after a few steps, and then the loader starts its workers again. How few is the dose. A perfect
diagnosis: workers are restarted at every epoch's edge (at the loader or the loop over it, both marked).
Fix: workers that stay.
"""

import numpy as np
import torch
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS, LENGTH, SECTIONS, BATCH = 30_000, 14, 24, 128


class Titles(Dataset):
    def __init__(self, count):
        self.count = count
        rng = np.random.default_rng(0)
        self.words, self.sections = rng.integers(0, WORDS, (4096, LENGTH)), rng.integers(0, SECTIONS, 4096)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.words[index % 4096], self.sections[index % 4096]


class SectionNet(nn.Module):
    def __init__(self, size=64, hidden=896):
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, size, sparse=True)
        self.head = nn.Sequential(
            nn.Linear(size, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
        )
        self.section = nn.Linear(hidden, SECTIONS)

    def forward(self, words):
        return self.section(self.head(self.words(words)))


class Run:
    """Words learn by one optimizer, all else by another."""

    def __init__(self, device):
        self.device, self.model = device, SectionNet().to(device)
        dense = [*self.model.head.parameters(), *self.model.section.parameters()]
        self.optimizers = [
            torch.optim.SparseAdam(self.model.words.parameters(), lr=1e-3),
            torch.optim.SGD(dense, lr=0.05, momentum=0.9),
        ]
        self.loss_fn, self.epoch, self.running = nn.CrossEntropyLoss(), 0, 0.0

    def batch(self, words, sections):
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss = self.loss_fn(self.model(words.to(self.device)), sections.to(self.device))
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        self.running = 0.99 * self.running + 0.01 * loss.detach()

    def train_epoch(self, loader, meter):
        for words, sections in loader:  # planted
            self.batch(words, sections)
            meter.ticked()
            if not meter.going_on():
                return False
        self.epoch += 1
        return True


def main():
    meter = Meter(__doc__)
    run = Run(meter.device)
    blank = torch.randint(WORDS, (BATCH, LENGTH)), torch.randint(SECTIONS, (BATCH,))
    meter.calibrate(lambda: run.batch(*blank))
    steps = 500
    if meter.dose:
        probe = DataLoader(Titles(3 * BATCH), BATCH, num_workers=1)

        def whole():
            for batch in probe:
                run.batch(*batch)

        edge_s = meter.timed_s(whole, calls=6) - 3 * meter.healthy_s
        steps = max(2, round(edge_s / meter.added_s))
    stay = not meter.sick
    loader = DataLoader(  # planted
        Titles(steps * BATCH), batch_size=BATCH, shuffle=True, num_workers=1, persistent_workers=stay
    )
    next(iter(loader))
    while meter.going_on() and run.train_epoch(loader, meter):
        pass
    meter.report(excess=True)


if __name__ == "__main__":
    main()
