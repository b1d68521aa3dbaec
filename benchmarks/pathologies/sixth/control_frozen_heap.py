"""Healthy control: sleep stages from a loader with one lasting worker; the collector is called by hand.

Tempting: `gc.collect()` every hundred steps, and a worker that is busy a third of the time; but the heap was
frozen, so that there is nothing to look through, and the loader keeps up. A perfect diagnosis: healthy,
nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import gc

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

STAGES = 5


class Nights(Dataset):
    def __init__(self, samples, smoothings):
        self.samples, self.smoothings = samples, smoothings
        self.brain = np.random.default_rng(0).standard_normal(200_000, dtype=np.float32)

    def __len__(self):
        return 10_000_000

    def __getitem__(self, index):
        start = index * 31 % (len(self.brain) - self.samples)
        wave = self.brain[start : start + self.samples]
        for _ in range(self.smoothings):
            wave = 0.5 * wave + 0.25 * (np.roll(wave, 1) + np.roll(wave, -1))
        return wave, index % STAGES


class SleepNet(nn.Module):
    def __init__(self, window, width, depth):
        super().__init__()
        self.window = window
        self.enter, self.stage = nn.Linear(window, width), nn.Linear(width, STAGES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, waves):
        h = self.enter(waves.unflatten(1, (-1, self.window)))
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.stage(h.mean(1)).float()


def smoothings_taking(meter, samples, wanted_s):
    nights, some = Nights(samples, 0), Nights(samples, 10)
    plain_s = meter.timed_s(lambda: nights[1], calls=20)
    return max(0, round((wanted_s - plain_s) * 10 / (meter.timed_s(lambda: some[1], calls=20) - plain_s)))


def main():
    meter = Meter(__doc__)
    batch, samples, window = meter.pick((256, 4096, 128), (4, 1024, 32))
    net = SleepNet(window, *meter.pick((4096, 5), (512, 8))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(waves, stages):
        waves, stages = (t.to(meter.device, non_blocking=True) for t in (waves, stages))
        with meter.autocast():
            loss = F.cross_entropy(net(waves), stages)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, samples), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    workers = meter.pick(6, 1)
    smoothings = smoothings_taking(meter, samples, workers * 0.3 * meter.healthy_s / batch)
    loader = DataLoader(
        Nights(samples, smoothings), batch, num_workers=workers, pin_memory=meter.gpu, persistent_workers=True
    )
    gc.collect()
    gc.freeze()
    gc.disable()
    nights = iter(loader)
    learn(*next(nights))
    while meter.going_on():
        learn(*next(nights))
        meter.ticked()
        if meter.ticks % 100 == 0:
            gc.collect()
    meter.report()


if __name__ == "__main__":
    main()
