"""A language model; a thread looks for near duplicates in the text of the next epoch meanwhile.

How much of each second it is busy is the dose. A perfect diagnosis: another thread of Python holds the
interpreter, and the training thread waits for it (the thread's loop, marked below). Fix: it is a process.
"""

import multiprocessing
import random
import threading
import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WORDS, PERIOD_S, HASHES = 2000, 0.6, 6


class NearDuplicates:
    """Smallest hashes of all shingles of a text, as its signature."""

    def __init__(self):
        rng = random.Random(0)
        self.texts = [[rng.randrange(WORDS) for _ in range(120)] for _ in range(50)]
        self.salts, self.groups = [rng.getrandbits(31) for _ in range(HASHES)], {}

    def signature(self, text):
        smallest = [1 << 62] * HASHES
        for shingle in zip(text, text[1:], text[2:], strict=False):
            key = hash(shingle)
            for n, salt in enumerate(self.salts):
                smallest[n] = min(smallest[n], (key ^ salt) * 0x9E3779B1 % (1 << 61))  # planted
        return tuple(smallest)

    def search(self, until_s):
        for text in self.texts * 1000:
            if time.perf_counter() >= until_s:
                return
            self.groups.setdefault(self.signature(text)[:2], []).append(len(text))


def work_through(over, busy_s):
    """In portions, which come from the disk once in a period."""
    while not over.is_set():
        begin_s = time.perf_counter()
        NearDuplicates().search(begin_s + busy_s)
        over.wait(max(0.01, PERIOD_S - (time.perf_counter() - begin_s)))


class Background:
    def __init__(self, busy_s, as_process):
        context = multiprocessing.get_context("fork")
        self.over = context.Event() if as_process else threading.Event()
        kind = context.Process if as_process else threading.Thread
        self.runner = kind(target=work_through, args=(self.over, busy_s), daemon=True)

    def __enter__(self):
        self.runner.start()

    def __exit__(self, *_):
        self.over.set()
        self.runner.join()


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads, self.one, self.two = heads, nn.LayerNorm(size), nn.LayerNorm(size)
        self.all, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.back = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, h):
        parts = self.all(self.one(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        h = h + self.join(seen.transpose(1, 2).flatten(2))
        return h + self.back(F.gelu(self.wide(self.two(h))))


class LanguageModel(nn.Module):
    def __init__(self, size, heads, depth):
        super().__init__()
        self.words, self.next = nn.Embedding(WORDS, size), nn.Linear(size, WORDS)
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(depth)))

    def forward(self, text):
        return self.next(self.blocks(self.words(text))).float()


def main():
    meter = Meter(__doc__)
    batch, length = meter.pick((32, 512), (4, 32))
    model = LanguageModel(*meter.pick((1024, 16, 4), (96, 4, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=meter.gpu)
    text = torch.randint(WORDS, (batch, length + 1), device=meter.device)

    def step():
        with meter.autocast():
            scores = model(text[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(step)
    # A GPU has work for a while when its orders stop.
    busy_s = PERIOD_S * meter.share / (1 + meter.share) + meter.pick(0.06, 0.0) * bool(meter.dose)
    with Background(busy_s, as_process=not meter.sick):
        while meter.going_on():
            step()
            meter.ticked()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
