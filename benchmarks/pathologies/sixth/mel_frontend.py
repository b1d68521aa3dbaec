"""Bird song by its spectrogram, which a front end makes in every step; the front end was never moved.

How many songs there are is the dose. A perfect diagnosis: a part of the model computes on the CPU, and the
GPU waits for it (marked below). Fix: the front end moves with the rest.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SONG, WINDOW, MELS, SPECIES = 4096, 256, 32, 30


class MelFrontEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.register_buffer("filters", torch.rand(WINDOW // 2 + 1, MELS) / WINDOW)
        self.shift = nn.Parameter(torch.zeros(MELS))

    def forward(self, songs):
        bins = torch.stft(songs, WINDOW, WINDOW // 2, window=self.window, return_complex=True)
        return (bins.abs().mT @ self.filters + 1e-4).log() + self.shift


class Classifier(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.species = nn.Linear(MELS, width), nn.Linear(width, SPECIES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, mels):
        h = self.enter(mels)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.species(h.mean(1)).float()


class BirdRun:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(256, 4)
        self.classifier = Classifier(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.species = torch.randint(SPECIES, (self.rows,), device=meter.device)
        self.place(MelFrontEnd().to(meter.device), 8)

    def place(self, front, songs):
        self.front, home = front, front.shift.device
        self.songs = torch.randn(songs, SONG, device=home)
        weights = [*self.classifier.parameters(), *front.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5)

    def step(self):
        mels = self.front(self.songs)  # planted
        mels = mels.to(self.meter.device)
        mels = mels.repeat(-(-self.rows // len(mels)), 1, 1)[: self.rows]
        with self.meter.autocast():
            scores = self.classifier(mels)
        loss = F.cross_entropy(scores, self.species)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def song_s(meter, front):
    """One song more on the CPU, there and back."""
    times = []
    for count in (2, 18):
        songs = torch.randn(count, SONG)
        times.append(meter.timed_s(lambda x=songs: front(x).sum().backward(), calls=5))
    return max(1e-7, (times[1] - times[0]) / 16)


def main():
    meter = Meter(__doc__)
    run = BirdRun(meter)
    meter.calibrate(run.step)
    if meter.dose:
        front = MelFrontEnd()
        count = max(8, round(meter.added_s / song_s(meter, front)))
        run.place(front if meter.sick else MelFrontEnd().to(meter.device), count)
    while meter.going_on():
        run.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
