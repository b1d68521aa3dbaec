"""Healthy control: peptides of different lengths, in batches of like lengths; a sampler puts them together.

Tempting: a batch sampler in plain Python that sorts, one worker, and a collate function that pads; but it
sorts once for hundreds of batches, and the worker stays and is ready in time. A perfect diagnosis: healthy,
nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

ACIDS, SHORTEST, LONGEST, BATCH, PEPTIDES = 21, 16, 40, 24, 12_000


class Peptides(Dataset):
    def __init__(self):
        rng = random.Random(0)
        self.lengths = [rng.randint(SHORTEST, LONGEST) for _ in range(PEPTIDES)]
        self.acids = torch.randint(1, ACIDS, (PEPTIDES, LONGEST))

    def __len__(self):
        return PEPTIDES

    def __getitem__(self, index):
        acids = self.acids[index, : self.lengths[index]]
        return acids, float(acids[0] > 10)


class BucketBatches(Sampler):
    def __init__(self, lengths, size):
        self.lengths, self.size, self.rng = lengths, size, random.Random(1)

    def __len__(self):
        return len(self.lengths) // self.size

    def __iter__(self):
        order = sorted(range(len(self.lengths)), key=lambda row: self.lengths[row] + self.rng.random() * 3)
        batches = [order[begin : begin + self.size] for begin in range(0, len(order), self.size)]
        self.rng.shuffle(batches)
        yield from batches[: len(self)]


def padded(samples):
    acids, binds = zip(*samples, strict=True)
    return pad_sequence(acids, batch_first=True), torch.tensor(binds)


class PeptideNet(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.embed, self.place = nn.Embedding(ACIDS, size, 0), nn.Embedding(LONGEST, size)
        layer = nn.TransformerEncoderLayer(size, 4, 4 * size, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(size, 1)

    def forward(self, acids):
        mask = acids == 0
        places = self.place(torch.arange(acids.shape[1], device=acids.device))
        h = self.encoder(self.embed(acids) + places, src_key_padding_mask=mask)
        return self.out(h.masked_fill(mask[:, :, None], 0).sum(1))[:, 0]


def endless(loader):
    while True:
        yield from loader


def main():
    meter, peptides = Meter(__doc__), Peptides()
    net = PeptideNet().to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)

    def step(acids, binds):
        loss = F.binary_cross_entropy_with_logits(net(acids.to(meter.device)), binds.to(meter.device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    sampler, some = BucketBatches(peptides.lengths, BATCH), iter(range(10**6))
    meter.calibrate(lambda: step(*padded([peptides[next(some)] for _ in range(BATCH)])))
    loader = DataLoader(
        peptides, batch_sampler=sampler, num_workers=1, persistent_workers=True, collate_fn=padded
    )
    batches = endless(loader)
    for _ in range(3):
        step(*next(batches))
    while meter.going_on():
        step(*next(batches))
        meter.ticked()
    meter.report()
    batches.close()


if __name__ == "__main__":
    main()
