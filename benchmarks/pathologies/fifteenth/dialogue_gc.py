"""Answers in dialogues, by a small causal transformer; garbage is collected by hand, at an interval.

The collector is switched off, so that pauses come at the same step everywhere, and started every so many
steps. How many is the dose; a great many dialogues are alive. A perfect diagnosis: the training stands
still while garbage is collected (marked below). Fix: what was read before the training is frozen.
"""

import functools
import gc
import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WORDS, LENGTH, BATCH, DIALOGUES = 600, 24, 12, 15_000


class Turn:
    __slots__ = ("reply_to", "said", "tags")

    def __init__(self, said, reply_to):
        self.said, self.reply_to, self.tags = said, reply_to, {"speaker": len(said) % 2, "acts": ["inform"]}


def read_dialogues(rng):
    dialogues = []
    for _ in range(DIALOGUES):
        last = Turn([rng.randrange(WORDS)], None)
        for _ in range(2):
            last = Turn([*last.said, rng.randrange(WORDS)], last)
        dialogues.append(last)
    return dialogues


class CausalBlock(nn.Module):
    def __init__(self, size, heads=4):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class DialogueModel(nn.Module):
    def __init__(self, size=96):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, size), nn.Embedding(LENGTH, size)
        self.blocks = nn.Sequential(CausalBlock(size), CausalBlock(size))
        self.norm = nn.LayerNorm(size)

    def forward(self, ids):
        h = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.norm(self.blocks(h)) @ self.words.weight.T


class ManualGC:
    """`--manual-gc --manual-gc-interval N`."""

    def __init__(self, meter, interval):
        self.meter, self.interval, self.step = meter, interval, 0
        gc.disable()

    def __call__(self, train_step):
        @functools.wraps(train_step)
        def stepped(*args):
            result = train_step(*args)
            self.step += 1
            if self.interval and self.step % self.interval == 0:
                with self.meter.injecting():
                    gc.collect()  # planted
            return result

        return stepped


def batches(dialogues, rng, device):
    """What was said, and then other words, to a common length."""
    while True:
        rows = [rng.choice(dialogues).said for _ in range(BATCH)]
        padded = torch.zeros(BATCH, LENGTH + 1, dtype=torch.long)
        for row, said in zip(padded, rows, strict=True):
            row[: len(said)] = torch.tensor(said)
        yield padded.to(device)


def main():
    meter, rng = Meter(__doc__), random.Random(3)
    dialogues = read_dialogues(rng)
    model = DialogueModel().to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)

    def train_step(ids):
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    stream = batches(dialogues, rng, meter.device)
    meter.calibrate(lambda: train_step(next(stream)))
    interval = 0
    if meter.dose:
        gc.collect()
        interval = max(1, round(meter.timed_s(gc.collect, calls=4) / meter.added_s))
    if not meter.sick:
        gc.freeze()
        interval = max(interval, 50)
    train_step = ManualGC(meter, interval)(train_step)
    while meter.going_on():
        train_step(next(stream))
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
