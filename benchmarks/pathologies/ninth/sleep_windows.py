"""Stages of sleep from brain waves; the loader was written with its defaults, so the training thread loads.

How long each recording is filtered is the dose. A perfect diagnosis: the data is loaded by the training
thread, which has no workers to help it (either of the lines marked below). Fix: workers, and pinned memory.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

WINDOW, STAGES = 2048, 5


class Nights(Dataset):
    """Windows of a night, band by band; each band is filtered in the domain of frequencies."""

    def __init__(self, bands=1):
        rng = np.random.default_rng(0)
        self.waves, self.bands = rng.standard_normal((32, WINDOW), dtype=np.float32), bands

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        wave, kept = self.waves[index % len(self.waves)], np.zeros(WINDOW, np.float32)
        for band in range(self.bands):
            spectrum = np.fft.rfft(wave)
            spectrum[: band % 40] = 0
            kept += np.fft.irfft(spectrum).astype(np.float32)
        return torch.from_numpy(kept / self.bands), index % STAGES


class SleepNet(nn.Module):
    """Short pieces of a window as tokens, mixed by linear layers."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.stage = nn.Linear(8, width), nn.Linear(width, STAGES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, waves):
        h = self.enter(waves.unflatten(1, (-1, 8)))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.stage(h.mean(1)).float()


def main():
    meter = Meter(__doc__)
    batch = meter.pick(32, 2)
    net = SleepNet(*meter.pick((4096, 5), (96, 3))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(waves, stages):
        waves, stages = (part.to(meter.device, non_blocking=True) for part in (waves, stages))
        with meter.autocast():
            scores = net(waves)
        loss = F.cross_entropy(scores, stages)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, WINDOW), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    nights = Nights()
    if meter.dose:
        nights.bands = 16
        band_s = meter.timed_s(lambda: nights[1], calls=20) / 16
        nights.bands = max(1, round(meter.host_s / batch / band_s))
    options = {} if meter.sick else {"num_workers": meter.pick(12, 1), "pin_memory": meter.gpu}
    stream = iter(DataLoader(nights, batch, **options))  # planted
    learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            night = next(stream)  # planted
        learn(*night)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
