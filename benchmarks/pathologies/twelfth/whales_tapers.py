"""Whales by their songs: spectrograms through several tapers, of pieces cut from a memory-mapped recording.

A dictionary of options says that one worker loads. How many tapers there are is the dose. A perfect
diagnosis: the one worker is busy all the time and delivers too slowly, with cores free for more; the training
waits at the loader (marked below). Fix: more workers.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

LENGTH, FRAME, HOP, WHALES = 4096, 256, 128, 8
OPTIONS = {"workers": 1, "tapers": 2}


class Songs(Dataset):
    def __init__(self, path, tapers):
        self.path, self.record = path, None
        n = np.arange(FRAME) + 1
        self.tapers = np.stack([np.sin(np.pi * k * n / (FRAME + 1)) for k in range(1, tapers + 1)])

    def __getitem__(self, start):
        if self.record is None:
            self.record = np.load(self.path, mmap_mode="r")
        piece = self.record[start : start + LENGTH].astype(np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(piece, FRAME)[::HOP]
        power = np.zeros((len(frames), FRAME // 2 + 1))
        for taper in self.tapers:
            power += np.abs(np.fft.rfft(frames * taper)) ** 2
        return np.log1p(power / len(self.tapers)).astype(np.float32), start % WHALES


class PieceSampler(Sampler):
    """Batches of beginnings, without end."""

    def __init__(self, batch, last):
        self.batch, self.last = batch, last

    def __iter__(self):
        rng = np.random.default_rng(0)
        while True:
            yield rng.integers(0, self.last, self.batch).tolist()


class SongNet(nn.Module):
    """Convolutions over the spectrogram, with squeeze and excitation."""

    def __init__(self, channels, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 5, stride=(1, 4), padding=2)
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Linear(channels, channels) for _ in range(depth))
        self.whale = nn.Linear(channels, WHALES)

    def forward(self, songs):
        h = self.stem(songs[:, None])
        for conv, gate in zip(self.convs, self.gates, strict=True):
            new = F.relu(conv(h))
            h = h + new * torch.sigmoid(gate(new.mean((2, 3))))[:, :, None, None]
        return self.whale(h.mean((2, 3))).float()


def main():
    meter, options = Meter(__doc__), dict(OPTIONS)
    net = SongNet(*meter.pick((512, 8), (32, 2))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, nesterov=True, fused=meter.gpu)

    def learn(songs, whales):
        songs, whales = (part.to(meter.device, non_blocking=True) for part in (songs, whales))
        with meter.autocast():
            scores = net(songs)
        loss = F.cross_entropy(scores, whales)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    frames, batch = (LENGTH - FRAME) // HOP + 1, meter.pick(32, 8)
    blank = blanks(meter, torch.zeros(batch, frames, FRAME // 2 + 1), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hydrophone.npy")
        np.save(path, np.random.default_rng(0).integers(-3000, 3000, 400_000).astype(np.int16))
        if meter.dose:

            def piece(tapers):
                songs = Songs(path, tapers)
                return lambda: songs[1234]

            options["tapers"] = amount_taking(meter, piece, 1, 21, meter.beside_s / batch)
        if not meter.sick:
            options["workers"] = max(2, (os.cpu_count() or 1) // 2)
        songs, pieces = Songs(path, options["tapers"]), PieceSampler(batch, 400_000 - LENGTH)
        kind = {"num_workers": options["workers"], "pin_memory": meter.gpu}
        loader = DataLoader(songs, batch_sampler=pieces, **kind)  # planted
        stream = iter(loader)
        for _ in range(4):
            learn(*next(stream))
        while meter.going_on():
            with meter.injecting():
                fresh = next(stream)
            learn(*fresh)
            meter.ticked()
        meter.report(excess=meter.gpu)
        del stream


if __name__ == "__main__":
    main()
