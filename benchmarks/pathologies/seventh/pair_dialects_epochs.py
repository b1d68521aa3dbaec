"""Two faults: dialects from a loader whose workers end with each short epoch; words are compared each step.

Each takes three quarters of a dose. A perfect diagnosis names both: worker processes started anew for each
epoch (first marked line), and a hot line of Python that compares words (second). Fix: workers that stay; the
words are compared once.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, DIALECTS, BANDS = 0.75, 7, 32
WORDS = ("kirche", "kilche", "chilche", "kerk", "church", "kyrka", "kirken", "kjerke")


def distance(one, two):
    """How many letters are to be changed."""
    before = list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(two, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))  # planted
        before = row
    return before[-1]


class Villages(Dataset):
    def __init__(self, count, frames):
        self.count, self.frames = count, frames
        self.speech = np.random.default_rng(0).random((4096, BANDS), np.float32)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        start = index * 13 % (len(self.speech) - self.frames)
        return self.speech[start : start + self.frames], index % DIALECTS


class Spelling:
    """How near pairs of words are, as weights of the loss."""

    def __init__(self, pairs, each_time):
        self.pairs = [(WORDS[n % 8], WORDS[n * 3 % 7]) for n in range(pairs)]
        self.kept = None if each_time else self.compared()

    def compared(self):
        near = [1 / (1 + distance(one, two)) for one, two in self.pairs]
        return sum(near) / len(near)

    def weight(self):
        return self.compared() if self.kept is None else self.kept


class Ear(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.dialect = nn.Linear(BANDS, width), nn.Linear(width, DIALECTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, speech):
        h = self.enter(speech)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.dialect(h.mean(1)).float()


class Experiment:
    def __init__(self, meter):
        self.meter, (self.batch, self.frames) = meter, meter.pick((128, 64), (8, 48))
        self.ear = Ear(*meter.pick((4096, 5), (320, 6))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.ear.parameters(), 1e-5, fused=meter.gpu)
        self.spelling = Spelling(1, each_time=False)

    def learn(self, speech, dialects):
        speech, dialects = (t.to(self.meter.device, non_blocking=True) for t in (speech, dialects))
        with self.meter.autocast():
            loss = F.cross_entropy(self.ear(speech), dialects)
        loss = loss * self.spelling.weight()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def loader(self, villages, stay):
        options = {"num_workers": self.meter.pick(6, 1), "pin_memory": self.meter.gpu, "drop_last": True}
        return DataLoader(villages, self.batch, shuffle=True, persistent_workers=stay, **options)

    def fit(self, loader):
        while True:
            for speech, dialects in loader:  # planted
                if not self.meter.going_on():
                    return
                self.learn(speech, dialects)
                self.meter.ticked()

    def epoch_s(self):
        """What an epoch costs beside its batches."""
        loader = self.loader(Villages(self.batch, self.frames), stay=False)
        begin_s = time.perf_counter()
        for _ in range(4):
            list(loader)
        return (time.perf_counter() - begin_s) / 4


def main():
    meter = Meter(__doc__)
    experiment = Experiment(meter)
    speech = torch.zeros(experiment.batch, experiment.frames, BANDS)
    blank = blanks(meter, speech, torch.zeros(experiment.batch, dtype=torch.long))
    healthy_s = meter.calibrate(lambda: experiment.learn(*blank))
    part_s, batches = PART * meter.added_s, 200
    if meter.dose:
        probe = Spelling(40, each_time=True)
        # The host's own work of a healthy step goes on beside the GPU's.
        wanted_s = part_s + (healthy_s if meter.gpu else 0.0)
        pairs = max(1, round(wanted_s * 40 / meter.timed_s(probe.weight, calls=5)))
        experiment.spelling = Spelling(pairs, each_time=meter.sick)
        batches = max(2, round(experiment.epoch_s() / part_s))
    villages = Villages(experiment.batch * batches, experiment.frames)
    experiment.fit(experiment.loader(villages, stay=not meter.sick))
    meter.report(excess=True)


if __name__ == "__main__":
    main()
