"""Authors told apart by how they build sentences; a collate class climbs all trees of a text, word by word.

How many words a text has is the dose. A perfect diagnosis: the collate function is slow (either line marked
below), and the workers deliver too slowly. Fix: all words climb at once, by NumPy.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEEP, BROAD, AUTHORS = 32, 8, 20


class Text(NamedTuple):
    heads: np.ndarray
    author: int


class Texts(Dataset):
    """The head of each word comes before it; the first word is the root."""

    def __init__(self, words):
        rng = np.random.default_rng(0)
        self.heads = [(rng.random(words) * np.arange(words)).astype(np.int64) for _ in range(24)]

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return Text(self.heads[index % 24], index % AUTHORS)


class ClimbingCollate:
    def shape(self, heads):
        heads, table = heads.tolist(), np.zeros((DEEP, BROAD), np.float32)
        children = Counter(heads)
        for word in range(len(heads)):
            depth, at = 0, word
            while at:
                at = heads[at]  # planted
                depth += 1  # planted
            table[min(depth, DEEP - 1), min(children[word], BROAD - 1)] += 1
        return table

    def __call__(self, texts):
        shapes = np.stack([self.shape(text.heads) for text in texts])
        return torch.from_numpy(shapes), torch.tensor([text.author for text in texts])


class QuickCollate(ClimbingCollate):
    def shape(self, heads):
        at, depth = np.arange(len(heads)), np.zeros(len(heads), np.int64)
        while at.any():
            depth += at > 0
            at = heads[at]
        broad = np.bincount(heads, minlength=len(heads)).clip(max=BROAD - 1)
        cell = depth.clip(max=DEEP - 1) * BROAD + broad
        return np.bincount(cell, minlength=DEEP * BROAD).astype(np.float32).reshape(DEEP, BROAD)


class StyleNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.author = nn.Linear(BROAD, width), nn.Linear(width, AUTHORS)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, shapes):
        h = self.enter(shapes.log1p())
        for norm, layer in zip(self.norms, self.body, strict=True):
            h = h + F.gelu(layer(norm(h)))
        return self.author(h.mean(1)).float()


def words_taking(meter, batch, wanted_s):
    """How many words make the collate function take so long."""
    collate, words, took_s = ClimbingCollate(), 8, 0.0
    while words < 20_000:
        texts = [Texts(words)[n] for n in range(batch)]
        took_s = meter.timed_s(lambda t=texts: collate(t), calls=3)
        if took_s >= wanted_s:
            break
        words = max(words + 1, words * 11 // 10)
    return max(8, round(words * min(1.0, wanted_s / took_s)))


def main():
    meter = Meter(__doc__)
    batch, workers = meter.pick(256, 4), meter.pick(6, 1)
    net = StyleNet(*meter.pick((4096, 5), (256, 6))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(shapes, authors):
        shapes, authors = (part.to(meter.device, non_blocking=True) for part in (shapes, authors))
        with meter.autocast():
            scores = net(shapes)
        loss = F.cross_entropy(scores, authors)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, DEEP, BROAD), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    words = words_taking(meter, batch, workers * meter.beside_s) if meter.dose else 20
    collate = ClimbingCollate() if meter.sick else QuickCollate()
    options = {"num_workers": workers, "pin_memory": meter.gpu, "collate_fn": collate}
    stream = iter(DataLoader(Texts(words), batch, **options))
    for _ in range(2 * workers):
        learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            texts = next(stream)
        learn(*texts)
        meter.ticked()
    meter.report(excess=meter.gpu)
    del stream


if __name__ == "__main__":
    main()
