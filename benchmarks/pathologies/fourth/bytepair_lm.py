"""A language model that cuts its text into byte pairs while it trains, in plain Python.

How many words a step needs is the dose. A perfect diagnosis: the training thread spends its time in the
search for the next merge (marked below) while the GPU has nothing to do. Fix: words already cut are kept.
"""

import itertools
import random
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

VOCABULARY, MERGES = 4096, 600
LETTERS = "etaoinshrdlucmfwyp"


class BytePairs:
    def __init__(self, seed=0):
        rng = random.Random(seed)
        pieces, self.rank, self.number = list(LETTERS), {}, {}
        while len(self.rank) < MERGES:
            pair = rng.choice(pieces), rng.choice(pieces)
            if pair not in self.rank and len("".join(pair)) < 8:
                self.rank[pair] = len(self.rank)
                pieces.append("".join(pair))
        self.number = {piece: n for n, piece in enumerate(pieces)}
        self.cut_once = lru_cache(maxsize=None)(self.cut)

    def cut(self, word):
        parts = list(word)
        while len(parts) > 1:
            pairs = enumerate(itertools.pairwise(parts))
            ranked = [(self.rank.get(pair, MERGES), i) for i, pair in pairs]  # planted
            best, i = min(ranked)
            if best == MERGES:
                break
            parts[i : i + 2] = ["".join(parts[i : i + 2])]
        return [self.number[part] for part in parts]


class Corpus:
    def __init__(self, seed=1):
        self.rng = random.Random(seed)
        self.lexicon = ["".join(self.rng.choices(LETTERS, k=self.rng.randint(4, 14))) for _ in range(3000)]

    def words(self, count):
        return self.rng.choices(self.lexicon, k=count)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class TinyGPT(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.head = nn.Linear(dim, VOCABULARY, bias=False)

    def forward(self, ids):
        return self.head(self.blocks(self.tokens(ids)))


def main():
    meter = Meter(__doc__)
    rows, length = meter.pick((16, 1024), (2, 32))
    model = TinyGPT(*meter.pick((1024, 16, 4), (32, 2, 1))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, fused=meter.gpu)
    corpus, pairs = Corpus(), BytePairs()

    def batch_of(words, cut):
        numbers = list(itertools.chain.from_iterable(map(cut, words))) or [0]
        ids = torch.from_numpy(np.resize(np.array(numbers), (rows, length + 1)))
        return (ids.pin_memory() if meter.gpu else ids).to(meter.device, non_blocking=True)

    def learn(ids):
        with meter.autocast():
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: learn(batch_of(["the"], pairs.cut)))
    sample = corpus.words(200)
    word_s = meter.timed_s(lambda: [pairs.cut(word) for word in sample]) / len(sample)
    count, cut = round(meter.host_s / word_s), pairs.cut if meter.sick else pairs.cut_once
    while meter.going_on():
        learn(batch_of(corpus.words(count), cut))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
