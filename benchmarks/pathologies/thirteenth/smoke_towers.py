"""Smoke over forests, from towers whose sensors drift; a transformer over the hours of some days.

The loader's workers are `min(2, cores)`, from a warning that was once heeded. How many windows the running
medians have is the dose. A perfect diagnosis: the two workers are busy all the time and deliver too slowly,
with cores free for more (marked below). Fix: more workers.
"""

import os
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

HOURS, SENSORS, WINDOW = 128, 8, 9


class Towers(Dataset):
    """Medians of windows of different places are taken off, so that drift is gone."""

    def __init__(self, windows):
        rng = np.random.default_rng(0)
        self.record, self.windows = rng.random((4096, SENSORS), dtype=np.float32), windows

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        begin = index * 37 % (len(self.record) - HOURS - WINDOW)
        piece = self.record[begin : begin + HOURS].copy()
        for number in range(self.windows):
            at = number * 11 % (HOURS - WINDOW)
            piece[at : at + WINDOW] -= np.median(piece[at : at + WINDOW], 0)
        return piece, float(index % 2)


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.one, self.two = max(1, size // 64), nn.LayerNorm(size), nn.LayerNorm(size)
        self.all, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, h):
        q, k, v = self.all(self.one(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = h + self.join(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h + self.narrow(F.gelu(self.wide(self.two(h))))


class SmokeNet(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.enter, self.smoke = nn.Linear(SENSORS, size), nn.Linear(size, 1)
        self.hour = nn.Parameter(torch.zeros(HOURS, size))
        self.layers = nn.Sequential(*(Layer(size) for _ in range(depth)))

    def forward(self, hours):
        return self.smoke(self.layers(self.enter(hours) + self.hour).mean(1)).float()[:, 0]


def workers_of(cores, heeded):
    return min(2, cores) if heeded else max(2, cores // 2)


def forever(make_stream, meter):
    stream = make_stream()
    while True:
        with meter.injecting():
            batch = next(stream)
        yield batch


def main():
    meter = Meter(__doc__)
    batch = meter.pick(64, 8)
    net = SmokeNet(*meter.pick((1024, 6), (48, 1))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(hours, smoke):
        hours, smoke = (part.to(meter.device, non_blocking=True) for part in (hours, smoke))
        with meter.autocast():
            scores = net(hours)
        loss = F.binary_cross_entropy_with_logits(scores, smoke.float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, HOURS, SENSORS), torch.zeros(batch))
    meter.calibrate(partial(learn, *blank))
    workers, windows = workers_of(os.cpu_count() or 1, heeded=True), 2
    if meter.dose:

        def piece(windows):
            towers = Towers(windows)
            return lambda: towers[1234]

        # Without a GPU the training needs a core for itself.
        at_once = meter.pick(workers, 1)
        windows = amount_taking(meter, piece, 2, 102, at_once * meter.beside_s / batch)
    workers = workers_of(os.cpu_count() or 1, heeded=meter.sick) if meter.gpu or not meter.sick else 1
    options = {"num_workers": workers, "pin_memory": meter.gpu}
    loader = DataLoader(Towers(windows), batch, **options)  # planted
    stream = forever(partial(iter, loader), meter)
    for _ in range(3 * workers):
        learn(*next(stream))
    meter.injected_s = 0.0
    while meter.going_on():
        learn(*next(stream))
        meter.ticked()
    meter.report(excess=meter.gpu)
    stream.close()


if __name__ == "__main__":
    main()
