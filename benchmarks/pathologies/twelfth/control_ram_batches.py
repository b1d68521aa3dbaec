"""Healthy control: mushrooms by what was measured of them; the whole table is in memory, and small.

Tempting: the loader has no workers, so the training thread makes the batches itself; but a batch is a few
rows taken out of a tensor at once, which takes a moment while the GPU has work. A perfect diagnosis: healthy,
nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

MEASURES, KINDS = 24, 7


def loader_of(meter, rows):
    mushrooms = TensorDataset(torch.randn(8 * rows, MEASURES), torch.randint(KINDS, (8 * rows,)))
    lots = BatchSampler(RandomSampler(range(8)), 1, drop_last=True)
    return DataLoader(Lots(mushrooms, rows), batch_sampler=lots, collate_fn=first, pin_memory=meter.gpu)


def first(lots):
    return lots[0]


class Lots(torch.utils.data.Dataset):
    """So many rows at once, in another order each time."""

    def __init__(self, rows_of, size):
        self.rows_of, self.size = rows_of, size

    def __len__(self):
        return len(self.rows_of) // self.size

    def __getitem__(self, number):
        start = number * self.size + int(torch.randint(self.size, ())) // 2
        return self.rows_of[start : start + self.size]


class MushroomNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.kind = nn.Linear(MEASURES, width), nn.Linear(width, KINDS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, measures):
        h = self.enter(measures)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.kind(h).float()


class Training:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 96)
        self.net = MushroomNet(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.loader, self.stream = loader_of(meter, self.rows), iter(())

    def next_batch(self):
        try:
            return next(self.stream)
        except StopIteration:
            self.stream = iter(self.loader)
            return next(self.stream)

    def step(self):
        measures, kinds = (part.to(self.meter.device, non_blocking=True) for part in self.next_batch())
        with self.meter.autocast():
            scores = self.net(measures)
        loss = F.cross_entropy(scores[: len(kinds)], kinds)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    meter.calibrate(training.step)
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
