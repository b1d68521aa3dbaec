"""Cars found in point clouds, by pillars; the collate function sorts the points into them.

How many points a cloud has is the dose. A perfect diagnosis: the collate function is slow, as it goes over
the points one by one in Python (marked below), and the workers deliver too slowly. Fix: sorting by NumPy.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

GRID, FEATURES, BOX = 24, 4, 7
CELLS = GRID * GRID


class Clouds(Dataset):
    def __init__(self, points):
        rng = np.random.default_rng(0)
        self.all = rng.random((8 * points, 3), dtype=np.float32)
        self.points = points

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        start = index % 8 * self.points
        return self.all[start : start + self.points], index % GRID


def pillars_by_hand(cloud):
    """Sums of place and height, and how many points, for each pillar."""
    pillars = {}
    for x, y, z in zip(*cloud.T.tolist(), strict=True):
        found = pillars.setdefault(int(x * GRID) * GRID + int(y * GRID), [0.0] * FEATURES)  # planted
        found[0] += x
        found[1] += y
        found[2] += z
        found[3] += 1
    table = np.zeros((CELLS, FEATURES), np.float32)
    for cell, sums in pillars.items():
        table[cell] = sums
    return table


def pillars_at_once(cloud):
    cell = (cloud[:, 0] * GRID).astype(int) * GRID + (cloud[:, 1] * GRID).astype(int)
    sums = [np.bincount(cell, weights, CELLS) for weights in (*cloud.T, None)]
    return np.stack(sums, 1).astype(np.float32)


class PillarCollate:
    def __init__(self, sort):
        self.sort = sort

    def __call__(self, pairs):
        clouds, cars = zip(*pairs, strict=True)
        return torch.from_numpy(np.stack([self.sort(cloud) for cloud in clouds])), torch.tensor(cars)


class PillarNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.box = nn.Linear(FEATURES, width), nn.Linear(width, BOX + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, pillars):
        h = self.enter(pillars)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.box(h).float()


def points_taking(meter, wanted_s):
    cloud = np.random.default_rng(1).random((6000, 3), dtype=np.float32)
    few_s, many_s = (meter.timed_s(lambda n=n: pillars_by_hand(cloud[:n]), calls=10) for n in (2000, 6000))
    return max(100, round(2000 + (wanted_s - few_s) * 4000 / (many_s - few_s)))


def main():
    meter = Meter(__doc__)
    batch = meter.pick(16, 2)
    net = PillarNet(*meter.pick((4096, 5), (96, 3))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(pillars, cars):
        pillars, cars = (part.to(meter.device, non_blocking=True) for part in (pillars, cars))
        with meter.autocast():
            found = net(pillars)
        loss = F.cross_entropy(found[..., BOX], cars) + found[..., :BOX].abs().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, CELLS, FEATURES), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    workers = meter.pick(8, 1)
    points = points_taking(meter, workers * meter.beside_s / batch) if meter.dose else 100
    together = PillarCollate(pillars_by_hand if meter.sick else pillars_at_once)
    options = {"num_workers": workers, "pin_memory": meter.gpu, "collate_fn": together}
    stream = iter(DataLoader(Clouds(points), batch, **options))
    learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            sorted_clouds = next(stream)
        learn(*sorted_clouds)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
