"""A language model whose loop counts the n-grams of each batch in Python, for a novelty score nobody reads.

A perfect diagnosis: a hot line of Python on the training thread, marked below. Fix: count one batch in 200.
"""

from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

VOCAB = 4096


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.n2(x))


class LanguageModel(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim, max(1, dim // 64)) for _ in range(depth))
        self.out = nn.Linear(dim, VOCAB, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class Novelty:
    def __init__(self):
        self.seen, self.windows = Counter(), 0

    def score(self, tokens):
        fresh = 0
        for i in range(self.windows):
            gram = tuple(tokens[(i + j) % len(tokens)] for j in range(4))  # planted
            fresh += gram not in self.seen
            self.seen[gram] += 1
            if len(self.seen) > 50_000:
                self.seen.clear()
        return fresh


def corpus(batch, length):
    rng = np.random.default_rng(0)
    while True:
        yield rng.zipf(1.3, (batch, length + 1)).clip(max=VOCAB - 1)


def main():
    meter = Meter(__doc__)
    batch, length = meter.pick((16, 512), (2, 16))
    model = LanguageModel(*meter.pick((1024, 6), (32, 1))).to(meter.device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=meter.gpu)
    warmup = torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=100)

    def step(ids):
        ids = torch.from_numpy(ids)
        ids = (ids.pin_memory() if meter.gpu else ids).to(meter.device, non_blocking=True)
        with meter.autocast():
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        warmup.step()

    data, novelty = corpus(batch, length), Novelty()
    meter.calibrate(lambda: step(next(data)))
    tokens = next(data).ravel().tolist()
    novelty.windows = 2000
    window_s = meter.timed_s(lambda: novelty.score(tokens)) / novelty.windows
    novelty.windows = round(meter.host_s / window_s)
    while meter.going_on():
        ids = next(data)
        step(ids)
        if meter.sick or meter.ticks % 200 == 199:
            novelty.score(ids.ravel().tolist())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
