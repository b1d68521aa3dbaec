"""A masked autoencoder on textures; its loader has a worker for every core and more, and all are busy.

How often a texture is drawn into itself is the dose. A perfect diagnosis: the cores are used up by loading;
more workers would win nothing, the transform marked below must become cheaper. Fix: the crop comes first,
and the transform sees a quarter of the picture. Needs more cores than the training itself.
"""

import os

import numpy as np
import torch
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

CORES = len(os.sched_getaffinity(0))
PATCH = 8


def swirl(picture, rounds, seed):
    """Each round adds a shifted, damped copy of all scales."""
    shifts = np.random.default_rng(seed).integers(1, 40, (rounds, 2))
    for down, right in shifts:
        moved = np.roll(picture, (int(down), int(right)), (0, 1))
        picture = np.tanh(0.7 * picture + 0.4 * moved)
    return picture


class Textures(Dataset):
    def __init__(self, side, rounds, crop_first):
        self.side, self.rounds, self.crop_first = side, rounds, crop_first
        self.source = np.random.default_rng(1).standard_normal((2 * side, 2 * side, 3), dtype=np.float32)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        top, left = index * 7 % self.side, index * 13 % self.side
        window = slice(top, top + self.side), slice(left, left + self.side)
        if self.crop_first:
            cut = swirl(self.source[window], self.rounds, index)
        else:
            cut = swirl(self.source, self.rounds, index)[window]  # planted
        return np.ascontiguousarray(cut.transpose(2, 0, 1), np.float32)


class MaskedAutoencoder(nn.Module):
    def __init__(self, side, dim, depth, hidden=0.75):
        super().__init__()
        self.patches, size = (side // PATCH) ** 2, 3 * PATCH * PATCH
        self.seen = max(1, round((1 - hidden) * self.patches))
        self.embed = nn.Linear(size, dim)
        self.place = nn.Parameter(0.02 * torch.randn(self.patches, dim))
        self.blank = nn.Parameter(torch.zeros(dim))
        make = nn.TransformerEncoderLayer
        heads = max(1, dim // 64)
        self.encoder, self.decoder = (
            nn.ModuleList(make(dim, heads, 4 * dim, 0.0, "gelu", batch_first=True) for _ in range(n))
            for n in depth
        )
        self.pixels = nn.Linear(dim, size)

    def forward(self, pictures):
        b = len(pictures)
        patches = nn.functional.unfold(pictures, PATCH, stride=PATCH).mT
        order = torch.rand(b, self.patches, device=pictures.device).argsort(1)
        seen = order[:, : self.seen, None]
        h = self.embed(patches) + self.place
        h = h.gather(1, seen.expand(-1, -1, h.shape[-1]))
        for layer in self.encoder:
            h = layer(h)
        whole = (self.blank + self.place).expand(b, -1, -1).to(h.dtype)
        whole = whole.scatter(1, seen.expand(-1, -1, h.shape[-1]), h)
        for layer in self.decoder:
            whole = layer(whole)
        return (self.pixels(whole).float() - patches).square().mean()


def rounds_taking(meter, side, wanted_s):
    dear = Textures(side, 4, crop_first=False)
    return max(1, round(wanted_s * 4 / meter.timed_s(lambda: dear[3], calls=5)))


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((32, 128), (4, 32))
    model = MaskedAutoencoder(side, *meter.pick((1536, (6, 2)), (48, (2, 2)))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, fused=meter.gpu)

    def step(pictures):
        pictures = pictures.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = model(pictures)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    (blank,) = blanks(meter, torch.zeros(batch, 3, side, side))
    meter.calibrate(lambda: step(blank))
    rounds = rounds_taking(meter, side, CORES * meter.beside_s / batch) if meter.dose else 0
    textures = Textures(side, rounds, crop_first=not meter.sick)
    workers = CORES + CORES // 4
    loader = DataLoader(textures, batch, num_workers=workers, pin_memory=meter.gpu)
    pictures = iter(loader)
    step(next(pictures))
    while meter.going_on():
        step(next(pictures))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
