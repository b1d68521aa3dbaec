"""Text to speech: how long each phoneme lasts is found by an alignment, as batches are put together.

How many phonemes an utterance has is the dose. A perfect diagnosis: the collate function is slow (the line of
the alignment marked below), and the workers are busy with it. Fix: each utterance is aligned once, before the
training.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

UTTERANCES, PHONEMES, FRAMES, FINE = 24, 50, 40, 10
"""Alignments are finer than frames."""


def aligned(costs):
    """Frames for each phoneme on the cheapest monotonic path."""
    rows, columns = len(costs), len(costs[0])
    best = [[math.inf] * columns for _ in range(rows)]
    best[0][0] = costs[0][0]
    for t in range(1, columns):
        for p in range(min(t + 1, rows)):
            before = best[p - 1][t - 1] if p else math.inf
            best[p][t] = costs[p][t] + (before if before < best[p][t - 1] else best[p][t - 1])  # planted
    durations, p = [0] * rows, rows - 1
    for t in range(columns - 1, -1, -1):
        durations[p] += 1
        if t and p and best[p - 1][t - 1] <= best[p][t - 1]:
            p -= 1
    return durations


class Utterances(Dataset):
    def __init__(self, phonemes, bands):
        rng = np.random.default_rng(0)
        self.mels = rng.standard_normal((UTTERANCES, FRAMES, bands), dtype=np.float32)
        self.costs = rng.random((UTTERANCES, phonemes, FINE * FRAMES)).round(2)
        self.texts = rng.integers(0, PHONEMES, (UTTERANCES, phonemes))

    def __len__(self):
        return 400_000

    def __getitem__(self, index):
        return index % UTTERANCES


class SpeechCollate:
    def __init__(self, utterances, ahead):
        self.data = utterances
        self.known = {n: self.durations(n) for n in range(UTTERANCES)} if ahead else {}

    def durations(self, n):
        return aligned(self.data.costs[n].tolist())

    def __call__(self, numbers):
        durations = [self.known[n] if n in self.known else self.durations(n) for n in numbers]
        spoken = [np.repeat(self.data.texts[n], d)[::FINE] for n, d in zip(numbers, durations, strict=True)]
        return torch.from_numpy(np.stack(spoken)), torch.from_numpy(self.data.mels[numbers])


class Voice(nn.Module):
    def __init__(self, width, depth, bands):
        super().__init__()
        self.phoneme, self.mel = nn.Embedding(PHONEMES, width), nn.Linear(width, bands)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, spoken):
        h = self.phoneme(spoken)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.mel(h).float()


def phonemes_taking(meter, bands, wanted_s):
    times = []
    for count in (4, 20):
        collate = SpeechCollate(Utterances(count, bands), ahead=False)
        times.append(meter.timed_s(lambda c=collate: c([3]), calls=10))
    return max(2, min(FINE * FRAMES, round(4 + (wanted_s - times[0]) * 16 / (times[1] - times[0]))))


def main():
    meter = Meter(__doc__)
    batch, bands = meter.pick((204, 80), (8, 20))
    voice = Voice(*meter.pick((4096, 5), (256, 6)), bands).to(meter.device)
    optimizer = torch.optim.AdamW(voice.parameters(), 1e-5, fused=meter.gpu)

    def speak(spoken, mels):
        spoken, mels = (t.to(meter.device, non_blocking=True) for t in (spoken, mels))
        with meter.autocast():
            guess = voice(spoken)
        loss = F.l1_loss(guess, mels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, FRAMES, dtype=torch.long), torch.rand(batch, FRAMES, bands))
    meter.calibrate(lambda: speak(*blank))
    workers = meter.pick(6, 1)
    count = phonemes_taking(meter, bands, workers * meter.beside_s / batch) if meter.dose else 4
    utterances = Utterances(count, bands)
    collate = SpeechCollate(utterances, ahead=not meter.sick)
    options = {"num_workers": workers, "pin_memory": meter.gpu, "collate_fn": collate, "shuffle": True}
    stream = iter(DataLoader(utterances, batch, **options))
    speak(*next(stream))
    while meter.going_on():
        with meter.injecting():
            utterance = next(stream)
        speak(*utterance)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
