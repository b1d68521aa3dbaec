"""A graph network whose collate function colours the atoms of each batch by Weisfeiler and Lehman, in Python.

How many rounds are done is the dose. A perfect diagnosis: the workers spend their time in the collate
function (the refinement marked below), and the training waits for them. Fix: the rounds in NumPy.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORKERS, COLOURS = 4, 512


class Molecules(Dataset):
    def __init__(self, atoms):
        self.atoms = atoms

    def __len__(self):
        return 300_000

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        chain = np.arange(self.atoms - 1)
        rings = rng.integers(0, self.atoms, (2, self.atoms // 4))
        bonds = np.concatenate([np.stack([chain, chain + 1]), rings], 1)
        return rng.integers(0, 20, self.atoms), bonds, float(rng.random())


def refined(colours, neighbours):
    return [
        hash((own, *sorted(colours[n] for n in near))) % COLOURS  # planted
        for own, near in zip(colours, neighbours, strict=True)
    ]


def refined_at_once(colours, adjacency):
    near = adjacency @ (colours * 2654435761 % 1009)
    return (colours * 31 + near) % COLOURS


class Collate:
    def __init__(self, rounds, slow):
        self.rounds, self.slow = rounds, slow

    def __call__(self, molecules):
        elements, bonds, energies = zip(*molecules, strict=True)
        adjacency = np.zeros((len(elements), len(elements[0]), len(elements[0])), np.float32)
        for matrix, (a, b) in zip(adjacency, bonds, strict=True):
            matrix[a, b] = matrix[b, a] = 1
        colour = self.in_python if self.slow else self.in_numpy
        colours = [colour(atoms, matrix) for atoms, matrix in zip(elements, adjacency, strict=True)]
        return torch.from_numpy(np.stack(colours)), torch.from_numpy(adjacency), torch.tensor(energies)

    def in_python(self, atoms, matrix):
        colours, neighbours = atoms.tolist(), [np.flatnonzero(row).tolist() for row in matrix]
        for _ in range(self.rounds):
            colours = refined(colours, neighbours)
        return np.array(colours)

    def in_numpy(self, atoms, matrix):
        bonds = matrix.astype(np.int64)
        for _ in range(self.rounds):
            atoms = refined_at_once(atoms, bonds)
        return atoms


class GraphNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.colour = nn.Embedding(COLOURS, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.energy = nn.Linear(width, 1)

    def forward(self, colours, adjacency):
        h = self.colour(colours)
        for layer in self.layers:
            h = h + F.relu(layer(torch.bmm(adjacency, h) + h))
        return self.energy(h.mean(1)).squeeze(-1)


def round_s(meter, atoms):
    """One round of a batch, without what is done once."""
    colours, neighbours = [3] * 64, [[(n + k) % 64 for k in (1, 5, 63)] for n in range(64)]
    return meter.timed_s(lambda: refined(colours, neighbours), calls=20) / 64 * atoms


def main():
    meter = Meter(__doc__)
    batch, atoms = meter.pick((64, 128), (8, 32))
    net = GraphNet(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=meter.gpu)

    def learn(*tensors):
        colours, adjacency, energies = (t.to(meter.device, non_blocking=True) for t in tensors)
        with meter.autocast():
            loss = F.l1_loss(net(colours, adjacency).float(), energies)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    nothing = torch.zeros(batch, atoms, dtype=torch.long), torch.zeros(batch, atoms, atoms)
    blank = blanks(meter, *nothing, torch.zeros(batch))
    meter.calibrate(lambda: learn(*blank))
    workers = meter.pick(WORKERS, 1)
    rounds = round(workers * meter.beside_s / round_s(meter, batch * atoms))
    collate = Collate(rounds, meter.sick)
    loader = DataLoader(
        Molecules(atoms), batch, collate_fn=collate, num_workers=workers, pin_memory=meter.gpu
    )
    batches = iter(loader)
    learn(*next(batches))
    while meter.going_on():
        learn(*next(batches))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
