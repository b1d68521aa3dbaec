"""Bats by their calls; the loader's workers stream recordings and whiten each window in several bands.

The number of workers is what a shared node of a cluster left to one of eight jobs; here there is one job.
How many bands there are is the dose. A perfect diagnosis: the few workers are busy all the time and deliver
too slowly, with cores free for more (the loader marked below). Fix: more workers.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

WINDOW, SPECIES, JOBS_OF_NODE = 512, 14, 8


class Recordings(IterableDataset):
    """Each worker goes through recordings of its own."""

    def __init__(self, bands):
        self.bands = bands
        self.nights = np.random.default_rng(0).standard_normal((16, 32_768), dtype=np.float32)

    def whitened(self, window):
        spectrum = np.fft.rfft(window)
        whole = np.zeros(WINDOW, np.float32)
        for band in range(self.bands):
            power = np.abs(spectrum) ** 2 + 1.0 + band
            whole += np.fft.irfft(spectrum / np.sqrt(power), WINDOW).astype(np.float32)
        return whole / self.bands

    def __iter__(self):
        info = get_worker_info()
        rng = np.random.default_rng(info.id if info else 0)
        while True:
            night = int(rng.integers(len(self.nights)))
            start = int(rng.integers(32_768 - WINDOW))
            yield self.whitened(self.nights[night, start : start + WINDOW]), night % SPECIES


class CallNet(nn.Module):
    """Convolutions in time, each with a way around it."""

    def __init__(self, channels, depth):
        super().__init__()
        self.enter = nn.Conv1d(1, channels, 16, stride=8, padding=4)
        self.body = nn.ModuleList(nn.Conv1d(channels, channels, 5, padding=2) for _ in range(depth))
        self.species = nn.Linear(channels, SPECIES)

    def forward(self, calls):
        h = self.enter(calls[:, None])
        for conv in self.body:
            h = h + F.gelu(conv(h))
        return self.species(h.mean(2)).float()


def share_of_node():
    return max(1, (os.cpu_count() or 1) // JOBS_OF_NODE)


def loader_of(meter, recordings, batch, workers):
    return DataLoader(recordings, batch, num_workers=workers, pin_memory=meter.gpu)  # planted


def bands_taking(meter, wanted_s):
    windows = np.random.default_rng(1).standard_normal(WINDOW, dtype=np.float32)
    few, many = Recordings(1), Recordings(41)
    few_s, many_s = (meter.timed_s(lambda r=kind: r.whitened(windows), calls=40) for kind in (few, many))
    return max(1, round(1 + (wanted_s - few_s - 4e-6) * 40 / (many_s - few_s)))


def main():
    meter = Meter(__doc__)
    batch = meter.pick(256, 12)
    net = CallNet(*meter.pick((1024, 8), (64, 5))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(calls, species):
        calls, species = (part.to(meter.device, non_blocking=True) for part in (calls, species))
        with meter.autocast():
            scores = net(calls)
        loss = F.cross_entropy(scores, species, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, WINDOW), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    few = share_of_node()
    bands = bands_taking(meter, few * meter.beside_s / batch) if meter.dose else 1
    workers = few if meter.sick else max(2, (os.cpu_count() or 1) - 4)
    stream = iter(loader_of(meter, Recordings(bands), batch, workers))
    for _ in range(2 * few):
        learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            batch_now = next(stream)
        learn(*batch_now)
        meter.ticked()
    meter.report(excess=meter.gpu)
    del stream


if __name__ == "__main__":
    main()
