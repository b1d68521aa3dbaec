"""Healthy control: what comes next in a log of machines, by attention; one worker loads.

Tempting: there is a single worker, and many cores are free; but a batch is a few cuts of an array, and is
ready long before it is needed. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

EVENTS, LONG = 512, 128


class Log(IterableDataset):
    """Whole batches, of places drawn by chance."""

    def __init__(self, batch):
        self.events = np.random.default_rng(0).integers(0, EVENTS, 500_000)
        self.batch = batch

    def __iter__(self):
        rng = np.random.default_rng(torch.initial_seed() % 2**32)
        along = np.arange(LONG)
        while True:
            begins = rng.integers(0, len(self.events) - LONG, self.batch)
            yield torch.from_numpy(self.events[begins[:, None] + along])


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.one, self.two = max(1, size // 64), nn.LayerNorm(size), nn.LayerNorm(size)
        self.all, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 8 * size), nn.Linear(4 * size, size)

    def forward(self, h):
        q, k, v = self.all(self.one(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.join(mixed.transpose(1, 2).flatten(2))
        value, gate = self.wide(self.two(h)).chunk(2, -1)
        return h + self.narrow(value * F.silu(gate))


class LogNet(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.event, self.next = nn.Embedding(EVENTS, size), nn.Linear(size, EVENTS)
        self.place = nn.Parameter(torch.zeros(LONG, size))
        self.layers = nn.Sequential(*(Layer(size) for _ in range(depth)))

    def forward(self, events):
        return self.next(self.layers(self.event(events) + self.place)).float()


def main():
    meter = Meter(__doc__)
    batch = meter.pick(64, 3)
    net = LogNet(*meter.pick((1024, 5), (64, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(events):
        events = events.to(meter.device, non_blocking=True)
        with meter.autocast():
            scores = net(events)
        loss = F.cross_entropy(scores[:, :-1].flatten(0, 1), events[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    (blank,) = blanks(meter, torch.zeros(batch, LONG, dtype=torch.long))
    meter.calibrate(lambda: learn(blank))
    loader = DataLoader(Log(batch), batch_size=None, num_workers=1, prefetch_factor=4, pin_memory=meter.gpu)
    stream = iter(loader)
    for _ in range(6):
        learn(next(stream))
    while meter.going_on():
        learn(next(stream))
        meter.ticked()
    meter.report()
    del stream


if __name__ == "__main__":
    main()
