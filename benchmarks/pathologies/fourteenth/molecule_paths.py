"""How well does a molecule dissolve? A message passing net over graphs, with distances between the atoms.

The collate function joins graphs to one, and searches the distances from some atoms to all others breadth
first. From how many is the dose. A perfect diagnosis: the collate function is slow (any line marked
below), and the worker delivers too late. Fix: powers of the matrix of neighbours, for all graphs at once.
"""

from collections import deque
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

ATOMS, KINDS, FAR, GRAPHS = 20, 12, 6, 32


class Molecules(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.graphs = []
        for _ in range(256):
            chain = [(n, n + 1) for n in range(ATOMS - 1)]
            rings = [tuple(rng.integers(0, ATOMS, 2)) for _ in range(4)]
            kinds = rng.integers(0, KINDS, ATOMS)
            self.graphs.append((kinds, np.array(chain + rings), float(rng.normal())))

    def __len__(self):
        return 200_000

    def __getitem__(self, index):
        return self.graphs[index % 256]


def neighbours_of(bonds):
    around = [[] for _ in range(ATOMS)]
    for one, other in bonds.tolist():
        around[one].append(other)
        around[other].append(one)
    return around


def search(bonds, starts):
    around, rows = neighbours_of(bonds), np.full((ATOMS, ATOMS), FAR, np.int64)
    for start in range(starts):
        start %= ATOMS
        steps, line = {start: 0}, deque([start])
        while line:
            here = line.popleft()
            for other in around[here]:  # planted
                if other not in steps:  # planted
                    steps[other] = steps[here] + 1
                    line.append(other)
        for atom, step in steps.items():
            rows[start, atom] = min(step, FAR)
    return rows


def breadth_first(samples, starts):
    distances = [search(bonds, starts) for _, bonds, _ in samples]  # planted
    return joined(samples, np.stack(distances))


def by_powers(samples):
    near = np.zeros((len(samples), ATOMS, ATOMS), np.float32)
    for matrix, (_, bonds, _) in zip(near, samples, strict=True):
        matrix[bonds[:, 0], bonds[:, 1]] = matrix[bonds[:, 1], bonds[:, 0]] = 1
    reached = np.eye(ATOMS, dtype=bool)[None].repeat(len(samples), 0)
    distances = np.where(reached, 0, FAR)
    for step in range(1, FAR):
        grown = reached | (reached.astype(np.float32) @ near > 0)
        distances[grown & ~reached] = step
        reached = grown
    return joined(samples, distances)


def joined(samples, distances):
    kinds = torch.from_numpy(np.stack([kinds for kinds, _, _ in samples]))
    return kinds, torch.from_numpy(distances), torch.tensor([solved for _, _, solved in samples])


class GraphFormer(nn.Module):
    def __init__(self, size=96, heads=4, depth=2):
        super().__init__()
        self.atom, self.distance = nn.Embedding(KINDS, size), nn.Embedding(FAR + 1, heads)
        self.qkv = nn.ModuleList(nn.Linear(size, 3 * size) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
            for _ in range(depth)
        )
        self.heads, self.out = heads, nn.Linear(size, 1)

    def forward(self, kinds, distances):
        h, bias = self.atom(kinds), self.distance(distances).permute(0, 3, 1, 2)
        for qkv, mlp in zip(self.qkv, self.mlp, strict=True):
            q, k, v = qkv(h).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            h = h + F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)
            h = h + mlp(h)
        return self.out(h.mean(1))[:, 0]


class Experiment:
    def __init__(self, meter):
        self.device, self.model = meter.device, GraphFormer().to(meter.device)
        self.optimizer = torch.optim.RAdam(self.model.parameters(), lr=5e-4)

    def __call__(self, kinds, distances, solved):
        guess = self.model(kinds.to(self.device), distances.to(self.device))
        loss = (guess - solved.to(self.device)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    experiment, molecules = Experiment(meter), Molecules()
    samples = [molecules[number] for number in range(GRAPHS)]
    meter.calibrate(partial(experiment, *by_powers(samples)))
    collate = by_powers
    if meter.sick:
        work = lambda starts: partial(breadth_first, samples, starts)  # noqa: E731
        collate = partial(breadth_first, starts=amount_taking(meter, work, 1, 11, meter.beside_s, calls=5))
    loader = DataLoader(molecules, GRAPHS, shuffle=True, num_workers=1, collate_fn=collate)
    batches = iter(loader)
    for _ in range(4):
        experiment(*next(batches))
    while meter.going_on():
        with meter.injecting():
            batch = next(batches)
        experiment(*batch)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
