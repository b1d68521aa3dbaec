"""Speech from text; the collate function works out, for each sentence, which sounds which frames may have.

How many frames a sentence has is the dose. A perfect diagnosis: the workers spend their time in the collate
function, on the beta-binomial prior of the alignment (marked below). Fix: the prior by array arithmetic.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SOUNDS, MELS, TEXT, KEPT = 60, 40, 8, 32


@dataclass
class Sentence:
    sounds: torch.Tensor
    mels: torch.Tensor
    frames: int


class Corpus(Dataset):
    def __init__(self, frames):
        self.frames = frames
        self.sounds = torch.randint(SOUNDS, (100, TEXT))
        self.mels = torch.randn(KEPT, MELS)

    def __len__(self):
        return 700_000

    def __getitem__(self, index):
        return Sentence(self.sounds[index % 100], self.mels, self.frames)


def log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def slow_prior(frames):
    rows = []
    for t in range(1, frames + 1):
        a, b = t, frames + 1 - t
        rows.append([log_beta(k + a, TEXT - k + b) - log_beta(a, b) for k in range(TEXT)])  # planted
    return torch.tensor(rows)


def quick_prior(frames):
    t = torch.arange(1, frames + 1, dtype=torch.float32)[:, None]
    k = torch.arange(TEXT, dtype=torch.float32)
    a, b = t, frames + 1 - t
    above = torch.lgamma(k + a) + torch.lgamma(TEXT - k + b) - torch.lgamma(t.new_tensor(TEXT) + a + b)
    return above - torch.lgamma(a) - torch.lgamma(b) + torch.lgamma(a + b)


class PadAndAlign:
    def __init__(self, prior):
        self.prior = prior

    def __call__(self, sentences):
        """Sounds, spectrograms, and how likely a sound is for each of the first frames."""
        sounds = torch.stack([sentence.sounds for sentence in sentences])
        mels = torch.stack([sentence.mels for sentence in sentences])
        priors = torch.zeros(len(sentences), KEPT, TEXT)
        for row, sentence in enumerate(sentences):
            prior = self.prior(sentence.frames)[:KEPT]
            priors[row, : len(prior)] = prior
        return sounds, mels, priors


class Speaker(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.sound, self.mel = nn.Embedding(SOUNDS, width), nn.Linear(width, MELS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, sounds, priors):
        h = priors.softmax(2) @ self.sound(sounds)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.mel(h).float()


def frames_taking(meter, wanted_s):
    once_s = meter.timed_s(lambda: slow_prior(100), calls=5)
    return max(KEPT, round(100 * wanted_s / once_s))


def main():
    meter = Meter(__doc__)
    batch = meter.pick(256, 8)
    speaker = Speaker(*meter.pick((4096, 5), (256, 5))).to(meter.device)
    optimizer = torch.optim.AdamW(speaker.parameters(), 1e-5, fused=meter.gpu)

    def learn(sounds, mels, priors):
        sounds, mels, priors = (part.to(meter.device, non_blocking=True) for part in (sounds, mels, priors))
        with meter.autocast():
            guess = speaker(sounds, priors)
        loss = F.l1_loss(guess, mels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    shapes = torch.zeros(batch, KEPT, MELS), torch.zeros(batch, KEPT, TEXT)
    blank = blanks(meter, torch.zeros(batch, TEXT, dtype=torch.long), *shapes)
    meter.calibrate(lambda: learn(*blank))
    workers = meter.pick(8, 1)
    frames = frames_taking(meter, workers * meter.beside_s / batch) if meter.dose else KEPT
    together = PadAndAlign(slow_prior if meter.sick else quick_prior)
    options = {"num_workers": workers, "pin_memory": meter.gpu, "collate_fn": together}
    stream = iter(DataLoader(Corpus(frames), batch, **options))
    learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            spoken = next(stream)
        learn(*spoken)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
