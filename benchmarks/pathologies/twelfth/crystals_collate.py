"""How hard is a crystal? A graph net by scattered sums; the collate function finds each atom's neighbours.

They may lie in a neighbouring cell. How many cells are looked at is the dose. A perfect diagnosis: the
collate function is slow (any line marked below), and the workers deliver too late. Fix: all distances at
once, by NumPy.
"""

import math
from functools import partial
from heapq import nsmallest
from itertools import islice, product

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

ATOMS, NEAREST, KINDS = 8, 6, 20


class Crystals(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.places, self.kinds = rng.random((64, ATOMS, 3)), rng.integers(0, KINDS, (64, ATOMS))

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.places[index % 64], self.kinds[index % 64], float(index % 10)


def cells(count):
    """The nearest ones first."""
    around = sorted(product(range(-6, 7), repeat=3), key=lambda shift: sum(part * part for part in shift))
    return list(islice(around, count))


def neighbours(places, shifts):
    """Atom by atom, with all others and all cells."""
    places, found = places.tolist(), []
    for here in places:
        all_far = []
        for other, there in enumerate(places):
            for shift in shifts:
                far = math.dist(here, [a + b for a, b in zip(there, shift, strict=True)])  # planted
                all_far.append((far, other))  # planted
        found.append(nsmallest(NEAREST, all_far))  # planted
    return np.array(found)


def neighbours_at_once(places, shifts):
    there = places[:, None] + np.array(shifts)[None]
    far = np.linalg.norm(places[:, None] - there.reshape(1, -1, 3), axis=2)
    nearest = np.argpartition(far, NEAREST, 1)[:, :NEAREST]
    return np.stack([np.take_along_axis(far, nearest, 1), nearest // len(shifts)], 2)


def join(crystals, find, shifts):
    """One large graph of all crystals of a batch."""
    far, other = [], []
    for number, (places, _, _) in enumerate(crystals):
        found = find(places, shifts)
        far.append(found[..., 0].ravel())
        other.append(found[..., 1].ravel().astype(np.int64) + number * ATOMS)
    kinds, hard = np.concatenate([kinds for _, kinds, _ in crystals]), [hard for *_, hard in crystals]
    parts = np.concatenate(far).astype(np.float32), np.concatenate(other), kinds
    return *(torch.from_numpy(part) for part in parts), torch.tensor(hard)


class CrystalNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.kind, self.hard = nn.Embedding(KINDS, width), nn.Linear(width, 1)
        self.near = nn.Parameter(torch.randn(depth, width))
        self.messages = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.thoughts = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.updates = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, far, other, kinds):
        h, to = self.kind(kinds), torch.arange(len(kinds), device=kinds.device).repeat_interleave(NEAREST)
        layers = zip(self.messages, self.thoughts, self.updates, self.near, strict=True)
        for message, thought, update, near in layers:
            sent = thought(F.silu(message(h[other]) + far[:, None] * near))
            h = h + update(torch.zeros_like(h).index_add_(0, to, sent.to(h.dtype)))
        return self.hard(h.view(-1, ATOMS, h.shape[1]).mean(1)).float()[:, 0]


def main():
    meter, crystals = Meter(__doc__), Crystals()
    batch, workers = meter.pick((96, 4), (6, 1))
    net = CrystalNet(*meter.pick((4096, 4), (96, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(*graph):
        far, other, kinds, hard = (part.to(meter.device, non_blocking=True) for part in graph)
        with meter.autocast():
            guess = net(far, other, kinds)
        loss = F.l1_loss(guess, hard)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    samples = [crystals[n] for n in range(batch)]
    blank = blanks(meter, *join(samples, neighbours_at_once, cells(7)))
    meter.calibrate(lambda: learn(*blank))
    count = 7
    if meter.dose:

        def joining(count):
            return partial(join, samples, neighbours, cells(count))

        count = amount_taking(meter, joining, 1, 21, workers * meter.beside_s, calls=6)
    find = neighbours if meter.sick else neighbours_at_once
    collate = partial(join, find=find, shifts=cells(count))
    options = {"num_workers": workers, "collate_fn": collate, "pin_memory": meter.gpu}
    stream = iter(DataLoader(crystals, batch, **options))
    for _ in range(4 * workers):
        learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            graph = next(stream)
        learn(*graph)
        meter.ticked()
    meter.report(excess=meter.gpu)
    del stream


if __name__ == "__main__":
    main()
