"""A caption encoder whose collate function orders each batch by the words that neighbours share.

A perfect diagnosis: workers give batches too late, and nearly all of their time is in the collate function
(the ordering marked below), not in the samples. Fix: order by length.
"""

import time

import numpy as np
import torch
from stopwatch import Meter, blanks
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

VOCABULARY, WORKERS = 8192, 4


class Captions(Dataset):
    def __init__(self, longest):
        self.longest = longest

    def __len__(self):
        return 300_000

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        return rng.integers(1, VOCABULARY, self.longest - int(rng.integers(0, self.longest // 4)))


def chain_by_overlap(captions, cpu_s):
    """Greedy: each caption is followed by the one that shares most words with it; over and over."""
    until_s = time.thread_time() + cpu_s
    words, order = [set(caption.tolist()) for caption in captions], list(range(len(captions)))
    place = 0
    while time.thread_time() < until_s:
        here, rest = order[place], order[place + 1 :]
        best = max(rest, key=lambda j: len(words[here] & words[j]), default=here)
        if rest:
            swap = order.index(best)
            order[place + 1], order[swap] = order[swap], order[place + 1]
        place = (place + 1) % len(order)
    return [captions[j] for j in order]


class PadBatch:
    def __init__(self, ordering_s):
        self.ordering_s = ordering_s

    def __call__(self, captions):
        if self.ordering_s:
            captions = chain_by_overlap(captions, self.ordering_s)  # planted
        else:
            captions = sorted(captions, key=len)
        return pad_sequence([torch.from_numpy(caption) for caption in captions], batch_first=True)


class CaptionEncoder(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, max(1, dim // 64), 4 * dim, 0.0, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 256)

    def forward(self, ids):
        return self.head(self.layers(self.words(ids)).mean(1))


def main():
    meter = Meter(__doc__)
    bs, longest = meter.pick((64, 128), (8, 16))
    model = CaptionEncoder(*meter.pick((1024, 6), (32, 1))).to(meter.device)
    opt = torch.optim.AdamW(model.parameters(), 1e-4, fused=meter.gpu)
    prototypes = torch.randn(bs, 256, device=meter.device)

    def training_step(ids):
        with meter.autocast():
            loss = (model(ids.to(meter.device, non_blocking=True)) - prototypes).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()

    blank = blanks(meter, torch.ones(bs, longest, dtype=torch.long))
    meter.calibrate(lambda: training_step(*blank))
    collate = PadBatch(WORKERS * meter.beside_s if meter.sick else 0.0)
    loader = DataLoader(
        Captions(longest), bs, collate_fn=collate, num_workers=WORKERS, pin_memory=meter.gpu, drop_last=True
    )
    batches = iter(loader)
    next(batches)
    while meter.going_on():
        training_step(next(batches))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
