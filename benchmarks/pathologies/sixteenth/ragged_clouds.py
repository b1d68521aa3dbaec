"""What did the laser see? Clouds of points of different lengths are thinned and padded when they are joined.

A worker's collate function keeps one point of each small cube, point by point, in a dictionary. How many
points a cloud has is the dose. A perfect diagnosis: the collate function is slow (any line marked below).
Fix: cubes get numbers in NumPy, and those that differ are found at once.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

KEPT, BATCH, KINDS, CUBE, CLOUDS = 96, 16, 9, 0.125, 64


class Scans(Dataset):
    def __init__(self, points):
        rng = np.random.default_rng(3)
        lengths = rng.integers(round(0.8 * points), round(1.2 * points) + 1, CLOUDS)
        self.clouds = [rng.uniform(-1, 1, (length, 3)).astype(np.float32) for length in lengths]

    def __len__(self):
        return 50_000

    def __getitem__(self, index):
        return {"points": self.clouds[index % CLOUDS], "kind": index % KINDS}


def cube_of(x, y, z):
    return int((x + 2) / CUBE), int((y + 2) / CUBE), int((z + 2) / CUBE)  # planted


def thinned_by_dict(points):
    cubes = {}
    for x, y, z in points.tolist():
        cube = cube_of(x, y, z)  # planted
        if cube not in cubes or z > cubes[cube][2]:
            cubes[cube] = (x, y, z)
    return np.array(list(cubes.values()), np.float32)


def thinned_by_numbers(points):
    x, y, z = ((points + 2) / CUBE).astype(np.int64).T
    _, first = np.unique((x * 64 + y) * 64 + z, return_index=True)
    return points[first]


class PadClouds:
    """Called with a list of samples, as `collate_fn`."""

    def __init__(self, thinned):
        self.thinned = thinned

    def fit(self, points):
        points = self.thinned(points)[:KEPT]  # planted
        return np.pad(points, ((0, KEPT - len(points)), (0, 0))), len(points)

    def __call__(self, samples):
        rows, lengths = zip(*(self.fit(sample["points"]) for sample in samples), strict=True)
        mask = torch.arange(KEPT) < torch.tensor(lengths)[:, None]
        return torch.from_numpy(np.stack(rows)), mask, torch.tensor([sample["kind"] for sample in samples])


class PointNet(nn.Module):
    def __init__(self, size=96):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(3, size), nn.GELU(), nn.Linear(size, size), nn.GELU())
        self.mixed = nn.Sequential(nn.Linear(2 * size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
        self.out = nn.Linear(size, KINDS)

    @staticmethod
    def most(h, mask):
        return h.masked_fill(~mask[:, :, None], -1e4).amax(1, keepdim=True)

    def forward(self, points, mask):
        h = self.each(points)
        h = self.mixed(torch.cat([h, self.most(h, mask).expand_as(h)], 2))
        return self.out(self.most(h, mask)[:, 0])


def main():
    meter = Meter(__doc__)
    net = PointNet().to(meter.device)
    optimizer = torch.optim.NAdam(net.parameters(), lr=1e-3)

    def learn(points, mask, kinds):
        logits = net(points.to(meter.device), mask.to(meter.device))
        loss = F.cross_entropy(logits, kinds.to(meter.device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = torch.rand(BATCH, KEPT, 3), torch.ones(BATCH, KEPT).bool(), torch.zeros(BATCH).long()
    meter.calibrate(lambda: learn(*blank))
    points = KEPT
    if meter.dose:

        def joining(points):
            scans, collate = Scans(points), PadClouds(thinned_by_dict)
            samples = [scans[number] for number in range(BATCH)]
            return lambda: collate(samples)

        points = amount_taking(meter, joining, 50, 550, meter.beside_s, calls=6)
    collate = PadClouds(thinned_by_dict if meter.sick else thinned_by_numbers)
    loader = DataLoader(Scans(points), BATCH, shuffle=True, num_workers=1, collate_fn=collate, drop_last=True)
    batches = iter(loader)
    for _ in range(4):
        learn(*next(batches))
    while meter.going_on():
        with meter.injecting():
            batch = next(batches)
        learn(*batch)
        meter.ticked()
    meter.report()
    del batches


if __name__ == "__main__":
    main()
