"""Spoken keywords: each clip gets echoes and becomes a spectrogram, in two loader workers.

How many echoes a room has is the dose. A perfect diagnosis: two busy workers cannot make the batches in
time, and there are cores for more (marked below). Fix: twelve workers.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, WORDS = 16_000, 35


@dataclass
class Room:
    echoes: int

    def reverberate(self, clip, rng):
        for delay in rng.integers(40, 4000, self.echoes):
            clip = clip + 0.2 * np.roll(clip, delay)
        return clip


def spectrogram(clip, bins):
    frames = sliding_window_view(clip, 2 * bins)[::bins] * np.hanning(2 * bins)
    return np.log1p(np.abs(np.fft.rfft(frames)))[:, :bins].astype(np.float16)


class SpokenWords(Dataset):
    def __init__(self, samples, bins, room):
        self.seconds, self.bins, self.room = np.arange(samples) / RATE, bins, room

    def __len__(self):
        return 300_000

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        word = index % WORDS
        clip = np.sin(2 * np.pi * (150 + 20 * word) * self.seconds) + 0.1 * rng.random(len(self.seconds))
        return spectrogram(self.room.reverberate(clip, rng), self.bins)[None], word


def keyword_net(width, blocks):
    layers = [nn.Conv2d(1, width, 3, stride=2, padding=1)]
    for _ in range(blocks):
        layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.SiLU(True)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, WORDS))


def seconds_of_a_clip(meter, samples, bins, echoes):
    words = SpokenWords(samples, bins, Room(echoes))
    return meter.timed_s(lambda: words[7], calls=20)


def main():
    meter = Meter(__doc__)
    samples, bins, batch = meter.pick((RATE, 128, 64), (2000, 32, 8))
    net = keyword_net(*meter.pick((192, 6), (24, 3))).to(meter.device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def fit(x, y):
        x, y = (t.to(meter.device, non_blocking=True) for t in (x, y))
        with meter.autocast():
            loss = criterion(net(x.float().contiguous(memory_format=torch.channels_last)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()

    frames = (samples - 2 * bins) // bins + 1
    blank = torch.zeros(batch, 1, frames, bins, dtype=torch.float16)
    calm = blanks(meter, blank, torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: fit(*calm))
    few, many = meter.pick((2, 12), (1, 2))
    dry_s = seconds_of_a_clip(meter, samples, bins, 0)
    echo_s = (seconds_of_a_clip(meter, samples, bins, 50) - dry_s) / 50
    echoes = max(0, round((few * meter.beside_s / batch - dry_s) / echo_s))
    words = SpokenWords(samples, bins, Room(echoes))
    workers = few if meter.sick else many
    loader = DataLoader(words, batch, True, num_workers=workers, pin_memory=meter.gpu)  # planted
    stream = iter(loader)
    fit(*next(stream))
    while meter.going_on():
        x, y = next(stream)
        fit(x, y)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
