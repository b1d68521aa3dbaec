"""A transformer over windows of a genome, whose data module has two workers, as its default says.

Each window is mutated in rounds; how many is the dose. A perfect diagnosis: both workers are busy all the
time and deliver too slowly, and cores for more of them are free (the loader marked below). Fix: twelve.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

KMER, VOCABULARY = 6, 4**6
PLACES = 4 ** np.arange(KMER)


class Windows(Dataset):
    def __init__(self, length, rounds=0):
        self.length, self.rounds = length, rounds
        self.genome = np.random.default_rng(0).integers(0, 4, 400_000, np.int8)

    def __len__(self):
        return 350_000

    def mutated(self, bases, rng):
        for _ in range(self.rounds):
            keep = rng.random(len(bases)) > 0.01
            bases = np.where(keep, bases, rng.integers(0, 4, len(bases), np.int8))
            if rng.random() < 0.5:
                bases = 3 - bases[::-1]
        return bases

    def __getitem__(self, start):
        rng = np.random.default_rng(start)
        bases = self.mutated(self.genome[start : start + self.length + KMER], rng)
        kmers = np.zeros(self.length + 1, np.int64)
        for n in range(KMER):
            kmers += PLACES[n] * bases[n : n + self.length + 1]
        return kmers


class GenomeData:
    """Holds what the loader is made of."""

    def __init__(self, length, batch, rounds, workers=2):
        self.windows, self.batch, self.workers = Windows(length, rounds), batch, workers

    def train_loader(self, pin):
        options = {"batch_size": self.batch, "shuffle": True, "pin_memory": pin}
        return DataLoader(self.windows, num_workers=self.workers, **options)  # planted


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.before, self.after = heads, nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.mix(self.before(x)).chunk(3, -1)
        )
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.after(x))))


class GenomeModel(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.kmer = nn.Embedding(VOCABULARY, dim)
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])

    def forward(self, kmers):
        return self.layers(self.kmer(kmers)) @ self.kmer.weight.T


def main():
    meter = Meter(__doc__)
    batch, length = meter.pick((16, 1024), (4, 48))
    model = GenomeModel(*meter.pick((1024, 16, 4), (48, 2, 1))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.95), fused=meter.gpu)

    def train_step(kmers):
        kmers = kmers.to(meter.device, non_blocking=True)
        with meter.autocast():
            logits = model(kmers[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), kmers[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    (blank,) = blanks(meter, torch.zeros(batch, length + 1, dtype=torch.long))
    meter.calibrate(lambda: train_step(blank))
    few, many = meter.pick((2, 12), (1, 2))
    plain, shaken = Windows(length), Windows(length, 40)
    plain_s = meter.timed_s(lambda: plain[9], calls=20)
    round_s = (meter.timed_s(lambda: shaken[9], calls=20) - plain_s) / 40
    rounds = max(0, round((few * meter.beside_s / batch - plain_s) / round_s))
    data = GenomeData(length, batch, rounds, few if meter.sick else many)
    stream = iter(data.train_loader(meter.gpu))
    train_step(next(stream))
    while meter.going_on():
        train_step(next(stream))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
