"""Heart beats in twelve leads; the loader's workers add the slow wander of a patient's breath and movement.

How many there are was once decided by the number of GPUs. How many points the wander has is the dose. A
perfect diagnosis: the few workers are busy all the time and deliver too slowly, with cores free for more
(the loader marked below). Fix: more workers.
"""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

LEADS, SAMPLES, PATCH, RHYTHMS = 12, 256, 8, 9


class BaselineWander:
    """A walk of so many points, stretched over the beat."""

    def __init__(self, points):
        self.points = points

    def __call__(self, rng):
        height, speed, walk = 0.0, 0.0, []
        for n in range(self.points):
            speed = 0.95 * speed + 0.05 * (rng.random() - 0.5)
            height = 0.99 * height + speed + 0.01 * math.sin(0.02 * n)
            walk.append(height)
        return np.interp(np.linspace(0, self.points - 1, SAMPLES), np.arange(self.points), walk)


class Beats(Dataset):
    def __init__(self, wander):
        self.wander = wander
        self.recorded = np.random.default_rng(0).standard_normal((200, LEADS, SAMPLES), dtype=np.float32)

    def __len__(self):
        return 2_000_000

    def __getitem__(self, index):
        drift = self.wander(random.Random(index)).astype(np.float32)
        return self.recorded[index % 200] + drift, index % RHYTHMS


class BeatNet(nn.Module):
    """Short patches in time, over all leads."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.rhythm = nn.Linear(LEADS * PATCH, width), nn.Linear(width, RHYTHMS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, beats):
        h = self.enter(beats.unflatten(2, (-1, PATCH)).transpose(1, 2).flatten(2))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.rhythm(h.mean(1)).float()


class BeatLoaders:
    def __init__(self, meter, batch):
        self.batch, self.pinned = batch, meter.gpu
        self.per_gpu, self.gpus = meter.pick(2, 1), 1

    def fit(self, beats, workers=None):
        workers = workers or self.per_gpu * self.gpus
        return DataLoader(beats, self.batch, num_workers=workers, pin_memory=self.pinned)  # planted


def points_taking(meter, wanted_s):
    few, many = (Beats(BaselineWander(points)) for points in (10, 1010))
    few_s, many_s = (meter.timed_s(lambda b=beats: b[11], calls=40) for beats in (few, many))
    return max(10, round(10 + (wanted_s - few_s) * 1000 / (many_s - few_s)))


def main():
    meter = Meter(__doc__)
    batch = meter.pick(256, 8)
    net = BeatNet(*meter.pick((4096, 5), (192, 5))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(beats, rhythms):
        beats, rhythms = (part.to(meter.device, non_blocking=True) for part in (beats, rhythms))
        with meter.autocast():
            scores = net(beats)
        loss = F.cross_entropy(scores, rhythms)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, LEADS, SAMPLES), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    loaders = BeatLoaders(meter, batch)
    points = points_taking(meter, loaders.per_gpu * meter.beside_s / batch) if meter.dose else 10
    stream = iter(loaders.fit(Beats(BaselineWander(points)), None if meter.sick else meter.pick(12, 2)))
    learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            loaded = next(stream)
        learn(*loaded)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
