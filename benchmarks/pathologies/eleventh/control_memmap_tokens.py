"""Healthy control: a model of bytes, whose batches the training thread cuts out of a memory-mapped file.

Tempting: no loader, no workers, and a file that is read in every step; but it is a few kilobytes at random
places, and NumPy has them at once. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BYTES = 256


@dataclass(frozen=True)
class Sizes:
    batch: int
    length: int
    width: int
    heads: int
    depth: int


class ByteFile:
    def __init__(self, path, sizes, meter):
        self.bytes, self.sizes, self.meter = np.memmap(path, np.uint8, "r"), sizes, meter
        self.rng = np.random.default_rng(0)

    def batch(self):
        starts = self.rng.integers(0, len(self.bytes) - self.sizes.length - 1, self.sizes.batch)
        rows = torch.from_numpy(
            np.stack([self.bytes[start : start + self.sizes.length + 1] for start in starts])
        )
        rows = rows.pin_memory() if self.meter.gpu else rows
        return rows.to(self.meter.device, non_blocking=True).long()


class ByteModel(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads, width = sizes.heads, sizes.width
        self.embed, self.next = nn.Embedding(BYTES, width), nn.Linear(width, BYTES)
        self.asks = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(sizes.depth))
        self.thinks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(sizes.depth)
        )

    def forward(self, rows):
        h = self.embed(rows)
        for ask, think in zip(self.asks, self.thinks, strict=True):
            parts = ask(h).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            h = h + F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
            h = h + think(h)
        return self.next(h).float()


def main():
    meter = Meter(__doc__)
    sizes = Sizes(*meter.pick((32, 512, 1024, 16, 4), (4, 48, 96, 4, 3)))
    model = ByteModel(sizes).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=meter.gpu)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "book.bin")
        path.write_bytes(np.random.default_rng(1).bytes(4_000_000))
        book = ByteFile(path, sizes, meter)

        def tick():
            rows = book.batch()
            with meter.autocast():
                scores = model(rows[:, :-1])
            loss = F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        meter.calibrate(tick)
        while meter.going_on():
            tick()
            meter.ticked()
        meter.report()


if __name__ == "__main__":
    main()
