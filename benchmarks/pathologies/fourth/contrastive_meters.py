"""Contrastive learning of captions and pictures; its meters read four numbers from the GPU in every step.

What comes after, the next captions' masking in NumPy, could be done while the GPU works; it has nothing to
do then. Doses 1 to 3 cost about 23, 38 and 44 %. A perfect diagnosis: the host waits for the GPU in every
step (the first read marked below). Fix: the meters add up on the GPU, and are read every 200 steps.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SHARES, WORDS, LENGTH, FEATURES = (0.0, 0.3, 0.6, 0.8), 8000, 32, 256


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value):
        self.sum, self.count = self.sum + value, self.count + 1


class CaptionMasker:
    """Drops, swaps and replaces words, some rounds of it."""

    def __init__(self, captions, seed=0):
        self.rng = np.random.default_rng(seed)
        self.captions = self.rng.integers(2, WORDS, (captions, LENGTH))

    def drop(self, words):
        return np.where(self.rng.random(words.shape) < 0.05, 0, words)

    def swap(self, words):
        places = self.rng.permutation(LENGTH)
        return words[:, places]

    def replace(self, words):
        rows = self.rng.integers(0, len(words), len(words) // 8)
        words[rows, rows % LENGTH] = rows % WORDS
        return words

    def masked(self, rounds):
        words = self.captions.copy()
        for n in range(rounds):
            words = (self.drop, self.swap, self.replace)[n % 3](words)
        return words


class Clip(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.word, self.phrase = nn.Embedding(WORDS, 128), nn.Linear(128, width)
        self.patch = nn.Linear(FEATURES, width)
        self.text, self.image = (
            nn.ModuleList(nn.Linear(width, width) for _ in range(depth)) for _ in range(2)
        )

    def forward(self, words, pictures):
        t, p = self.phrase(self.word(words).mean(1)), self.patch(pictures)
        for text, image in zip(self.text, self.image, strict=True):
            t, p = t + F.gelu(text(t)), p + F.gelu(image(p))
        return F.normalize(t, dim=-1) @ F.normalize(p, dim=-1).T


class Training:
    def __init__(self, meter):
        self.meter, self.captions = meter, meter.pick(4096, 32)
        self.model = Clip(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=meter.gpu)
        self.pictures = torch.randn(self.captions, FEATURES, device=meter.device)
        self.same = torch.arange(self.captions, device=meter.device)
        self.read, self.added = [AverageMeter() for _ in range(4)], torch.zeros(4, device=meter.device)

    def step(self, words):
        words = torch.from_numpy(words)
        words = (words.pin_memory() if self.meter.gpu else words).to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            alike = self.model(words, self.pictures).float() / 0.07
        there, back = F.cross_entropy(alike, self.same), F.cross_entropy(alike.T, self.same)
        self.optimizer.zero_grad(set_to_none=True)
        (there + back).backward()
        self.optimizer.step()
        with torch.no_grad():
            right = (alike.argmax(1) == self.same).float().mean()
        return there.detach(), back.detach(), right, alike.detach().diagonal().mean()

    def read_each(self, there, back, right, near):
        self.read[0].update(there.item())  # planted
        self.read[1].update(back.item())
        self.read[2].update(right.item())
        self.read[3].update(near.item())

    def add_up(self, *values):
        self.added += torch.stack(values)
        if self.meter.ticks % 200 == 199:
            for meter, value in zip(self.read, (self.added / 200).tolist(), strict=True):
                meter.update(value)
            self.added.zero_()


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    masker = CaptionMasker(training.captions)
    meter.calibrate(lambda: training.step(masker.masked(0)))
    round_s = meter.timed_s(lambda: masker.masked(12)) / 12
    rounds = round(SHARES[meter.dose] * meter.healthy_s / round_s)
    note = training.read_each if meter.sick else training.add_up
    while meter.going_on():
        note(*training.step(masker.masked(rounds)))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
