"""Is a review pleased or not? A transformer of one layer; texts are cut into byte pairs when they are joined.

A worker's collate function merges letters, pair by pair, each word anew. How many words of a review it
reads is the dose. A perfect diagnosis: the collate function is slow (any line marked below), and the
worker delivers too late. Fix: what a word is cut into is kept in a dictionary.
"""

import random
from functools import lru_cache
from itertools import pairwise

import torch
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH, BATCH, LEXICON, LONGEST = 40, 24, 400, 4000
SOUNDS = ("ter", "ing", "lo", "ve", "bad", "un", "est", "mo", "vie", "act", "or", "dull")


def make_lexicon(rng):
    return ["".join(rng.choices(SOUNDS, k=rng.randint(2, 4))) for _ in range(LEXICON)]


class Reviews(Dataset):
    def __init__(self, words):
        rng = random.Random(6)
        lexicon = make_lexicon(rng)
        self.items = [(" ".join(rng.choices(lexicon, k=words)), rng.randint(0, 1)) for _ in range(128)]

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return self.items[index % 128]


class BytePairs:
    """Merges, the most frequent first."""

    def __init__(self):
        letters = sorted({letter for sound in SOUNDS for letter in sound})
        merges = [(sound[0], sound[1:2]) for sound in SOUNDS] + [(s[:2], s[2:3]) for s in SOUNDS if s[2:]]
        self.rank = {pair: number for number, pair in enumerate(dict.fromkeys(merges))}
        symbols = [*letters, *("".join(pair) for pair in self.rank)]
        self.ids = {symbol: number + 1 for number, symbol in enumerate(dict.fromkeys(symbols))}

    def best_pair(self, symbols):
        return min(pairwise(symbols), key=lambda pair: self.rank.get(pair, 10**6), default=None)  # planted

    def merged(self, symbols, pair):
        out, place = [], 0
        while place < len(symbols):
            if tuple(symbols[place : place + 2]) == pair:  # planted
                out.append(symbols[place] + symbols[place + 1])
                place += 2
            else:
                out.append(symbols[place])
                place += 1
        return out

    def cut(self, word):
        symbols = list(word)
        while (pair := self.best_pair(symbols)) in self.rank:
            symbols = self.merged(symbols, pair)
        return [self.ids.get(symbol, 0) for symbol in symbols]


class ReviewCollator:
    def __init__(self, cut):
        self.cut = cut

    def encode(self, text):
        pieces = [piece for word in text.split() for piece in self.cut(word)]  # planted
        kept = pieces[:LENGTH]
        return kept + [0] * (LENGTH - len(kept))

    def __call__(self, items):
        ids = [self.encode(text) for text, _ in items]  # planted
        return {"ids": torch.tensor(ids), "labels": torch.tensor([pleased for _, pleased in items])}


class Classifier(nn.Module):
    def __init__(self, symbols, size=96):
        super().__init__()
        self.embed, self.place = nn.Embedding(symbols, size), nn.Embedding(LENGTH, size)
        self.layer = nn.TransformerEncoderLayer(size, 4, 2 * size, 0.1, batch_first=True)
        self.out = nn.Linear(size, 2)

    def forward(self, ids, labels):
        places = self.place(torch.arange(LENGTH, device=ids.device))
        logits = self.out(self.layer(self.embed(ids) + places).mean(1))
        return nn.functional.cross_entropy(logits, labels)


def main():
    meter, pairs = Meter(__doc__), BytePairs()
    model = Classifier(len(pairs.ids) + 1).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def fit(batch):
        loss = model(**{name: tensor.to(meter.device) for name, tensor in batch.items()})
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    blank = {"ids": torch.zeros(BATCH, LENGTH, dtype=torch.long), "labels": torch.arange(BATCH) % 2}
    meter.calibrate(lambda: fit(blank))
    words, cut = 12, lru_cache(LONGEST)(pairs.cut)
    if meter.dose:

        def joining(words):
            items, collate = Reviews(words).items[:BATCH], ReviewCollator(pairs.cut)
            return lambda: collate(items)

        words = amount_taking(meter, joining, 2, 22, meter.beside_s, calls=5)
    collate = ReviewCollator(pairs.cut if meter.sick else cut)
    batches = iter(DataLoader(Reviews(words), BATCH, True, num_workers=1, collate_fn=collate))
    for _ in range(4):
        fit(next(batches))
    while meter.going_on():
        with meter.injecting():
            batch = next(batches)
        fit(batch)
        meter.ticked()
    meter.report()
    del batches


if __name__ == "__main__":
    main()
