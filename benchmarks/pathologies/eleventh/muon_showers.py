"""Where a particle came from, by the shower it left; the showers are simulated as they are learned from.

A worker on every core is busy with that. In how small steps a shower falls is the dose. A perfect diagnosis:
the cores are used up; more workers would win nothing, the simulation marked below must become cheaper. Fix:
a few large steps.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PARTICLES, CELLS = 1024, 16


class Showers(Dataset):
    def __init__(self, steps):
        self.steps = steps

    def __len__(self):
        return 1_000_000

    def fall(self, rng, tilt):
        """Positions on the ground; each step scatters every particle a little."""
        place = np.zeros((PARTICLES, 2), np.float32)
        course = np.full((PARTICLES, 2), tilt, np.float32)
        size = np.float32(1.0 / self.steps)
        for _ in range(self.steps):
            course += np.sqrt(size) * rng.standard_normal((PARTICLES, 2), dtype=np.float32)  # planted
            place += size * course
        return place

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        tilt = np.float32(rng.random() - 0.5)
        ground = (self.fall(rng, tilt) * 4 + CELLS / 2).astype(np.int64).clip(0, CELLS - 1)
        hits = np.bincount(ground[:, 0] * CELLS + ground[:, 1], minlength=CELLS * CELLS)
        return hits.astype(np.float32).reshape(1, CELLS, CELLS), tilt


def origin_net(width, depth):
    layers = [nn.Conv2d(1, width, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1))


def steps_taking(meter, wanted_s):
    few, many = Showers(2), Showers(42)
    few_s, many_s = (meter.timed_s(lambda s=showers: s[3], calls=20) for showers in (few, many))
    return max(2, round(2 + (wanted_s - few_s) * 40 / (many_s - few_s)))


def main():
    meter = Meter(__doc__)
    batch, cores = meter.pick(256, 6), len(os.sched_getaffinity(0))
    net = origin_net(*meter.pick((384, 7), (40, 5))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def regress(hits, tilts):
        hits = hits.to(meter.device, non_blocking=True).log1p()
        tilts = tilts.to(meter.device, non_blocking=True)
        with meter.autocast():
            guess = net(hits)[:, 0]
        loss = F.smooth_l1_loss(guess.float(), tilts)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, 1, CELLS, CELLS), torch.zeros(batch))
    meter.calibrate(lambda: regress(*blank))
    steps = 2
    if meter.sick:
        # Without a GPU the training needs one of the cores for itself.
        steps = steps_taking(meter, meter.pick(cores, 1) * meter.beside_s / batch)
    loader = DataLoader(Showers(steps), batch, num_workers=cores, pin_memory=meter.gpu)
    stream = iter(loader)
    for _ in range(2 * cores):
        regress(*next(stream))
    while meter.going_on():
        with meter.injecting():
            showers = next(stream)
        regress(*showers)
        meter.ticked()
    meter.report(excess=True)
    del stream


if __name__ == "__main__":
    main()
