"""What else belongs into a basket of a shop? For each basket, the one most like it in its batch is shown too.

The collate function looks for that, by sets, each basket with all others. How many things a basket holds is
the dose. A perfect diagnosis: the collate function is slow (either line marked below), and the workers
deliver too late. Fix: all of them at once, as a product of tables of zeros and ones.
"""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

THINGS, SHOWN, BASKETS = 8192, 12, 400


class Baskets(Dataset):
    def __init__(self, size):
        rng = np.random.default_rng(0)
        self.arrays = [rng.integers(0, THINGS, min(size, THINGS)) for _ in range(BASKETS)]
        self.sets = [set(array.tolist()) for array in self.arrays]

    def __len__(self):
        return 2_000_000

    def __getitem__(self, index):
        return self.sets[index % BASKETS], self.arrays[index % BASKETS]


def most_alike(sets):
    """For each, where the one is that has most in common with it."""
    found = []
    for one, mine in enumerate(sets):
        best, most = 0, -1.0
        for other, theirs in enumerate(sets):
            if other != one:
                common = len(mine & theirs)  # planted
                alike = common / (len(mine) + len(theirs) - common)  # planted
                if alike > most:
                    best, most = other, alike
        found.append(best)
    return torch.tensor(found)


def by_sets(baskets):
    return torch.stack([shown(array) for _, array in baskets]), most_alike([things for things, _ in baskets])


def by_product(baskets):
    holds = np.zeros((len(baskets), THINGS), np.float32)
    for row, (_, array) in zip(holds, baskets, strict=True):
        row[array] = 1
    common, size = holds @ holds.T, holds.sum(1)
    alike = common / (size[:, None] + size[None] - common)
    np.fill_diagonal(alike, -1)
    return torch.stack([shown(array) for _, array in baskets]), torch.from_numpy(alike.argmax(1))


def shown(array):
    return torch.from_numpy(np.resize(array, SHOWN))


class BasketNet(nn.Module):
    """Each basket several times, with other things left out."""

    def __init__(self, times, width, depth):
        super().__init__()
        self.times, self.thing, self.next = times, nn.EmbeddingBag(THINGS, 64), nn.Linear(width, 64)
        self.enter = nn.Linear(128, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, things, alike):
        own = self.thing(things)
        both = torch.cat([own, own[alike]], 1).repeat(self.times, 1)
        h = self.enter(F.dropout(both, 0.2))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return (self.next(h) @ own.T).float()


def main():
    meter = Meter(__doc__)
    batch, workers, times = meter.pick((64, 6, 128), (16, 1, 6))
    net = BasketNet(times, *meter.pick((4096, 5), (256, 3))).to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-5, fused=meter.gpu)
    own = torch.arange(batch, device=meter.device).repeat(times)

    def learn(things, alike):
        things, alike = (part.to(meter.device, non_blocking=True) for part in (things, alike))
        with meter.autocast():
            scores = net(things, alike)
        loss = F.cross_entropy(scores, own)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    probe = Baskets(SHOWN)
    blank = blanks(meter, *by_product([probe[n] for n in range(batch)]))
    meter.calibrate(partial(learn, *blank))
    size = SHOWN
    if meter.dose:

        def joining(size):
            baskets = Baskets(size)
            return partial(by_sets, [baskets[n] for n in range(batch)])

        size = amount_taking(meter, joining, SHOWN, 200, workers * meter.beside_s, calls=6)
    collate = by_sets if meter.sick else by_product
    loader = DataLoader(Baskets(size), batch, num_workers=workers, collate_fn=collate, pin_memory=meter.gpu)
    stream = iter(loader)
    for _ in range(4 * workers):
        learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            baskets = next(stream)
        learn(*baskets)
        meter.ticked()
    meter.report(excess=meter.gpu)
    del stream


if __name__ == "__main__":
    main()
