"""Two faults: a model of source code links names in its collate function, and is evaluated every few steps.

Each takes three quarters of a dose. A perfect diagnosis names both: the search for earlier uses of a name, in
the collate function (first marked line), and evaluations much too often (second). Fix: the links in NumPy, an
evaluation every two thousand steps.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, NAMES, ROUNDS_HELD = 0.75, 2000, 60


class Sources(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return 500_000

    def __getitem__(self, number):
        return np.random.default_rng(number).integers(0, NAMES, self.length + 1)


def last_use(names, window):
    """For each name, how far back it was used before."""
    back = []
    for place, name in enumerate(names):
        near = names[max(0, place - window) : place]
        back.append(next((n for n, other in enumerate(reversed(near), 1) if other == name), 0))  # planted
    return back


def last_use_at_once(names):
    order = np.argsort(names, kind="stable")
    back, same = np.zeros_like(names), names[order][1:] == names[order][:-1]
    back[order[1:]] = np.where(same, np.diff(order), 0)
    return back


class Linked:
    def __init__(self, window, slow):
        self.window, self.slow = window, slow

    def __call__(self, sources):
        names = np.stack(sources)
        if self.slow:
            links = np.array([last_use(row.tolist(), self.window) for row in names])
        else:
            links = np.stack([last_use_at_once(row) for row in names])
        return torch.from_numpy(names), torch.from_numpy(links).clamp_(max=1023)


class CodeModel(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.name, self.link = nn.Embedding(NAMES, dim), nn.Embedding(1024, dim)
        make = nn.TransformerEncoderLayer
        self.layers = nn.ModuleList(
            make(dim, max(2, dim // 64), 4 * dim, 0.0, "gelu", batch_first=True) for _ in range(depth)
        )
        self.next = nn.Linear(dim, NAMES)

    def forward(self, names, links):
        h = self.name(names[:, :-1]) + self.link(links[:, :-1])
        for layer in self.layers:
            h = layer(h)
        return F.cross_entropy(self.next(h).flatten(0, 1).float(), names[:, 1:].flatten())


class Run:
    def __init__(self, meter, model):
        self.meter, self.model = meter, model
        self.optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=meter.gpu)

    def here(self, batch):
        return [tensor.to(self.meter.device, non_blocking=True) for tensor in batch]

    def learn(self, batch):
        with self.meter.autocast():
            loss = self.model(*self.here(batch))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self, held_out):
        self.model.eval()
        with self.meter.autocast():
            losses = [self.model(*held_out) for _ in range(ROUNDS_HELD)]
        self.model.train()
        return torch.stack(losses).mean().item()


def window_taking(meter, length, batch, wanted_s):
    """The search goes back further the longer it may take."""
    names = Sources(length)[1].tolist()
    near_s = meter.timed_s(lambda: last_use(names, 2), calls=5)
    each_s = (meter.timed_s(lambda: last_use(names, 10), calls=5) - near_s) / 8
    return max(1, 2 + round((wanted_s / batch - near_s) / each_s))


def main():
    meter = Meter(__doc__)
    batch, length = meter.pick((32, 512), (4, 64))
    run = Run(meter, CodeModel(*meter.pick((1024, 4), (64, 2))).to(meter.device))
    empty = torch.zeros(batch, length + 1, dtype=torch.long)
    blank = blanks(meter, empty, empty)
    healthy_s = meter.calibrate(lambda: run.learn(blank))
    part_s, workers = PART * meter.added_s, meter.pick(4, 1)
    window = window_taking(meter, length, batch, workers * (healthy_s + part_s))
    collate, held_out, every = Linked(window, meter.sick), run.here(blank), 2000
    loader = DataLoader(
        Sources(length),
        batch,
        collate_fn=collate,
        num_workers=workers,
        prefetch_factor=1,
        pin_memory=meter.gpu,
    )
    if meter.sick:
        every = max(1, round(meter.timed_s(lambda: run.evaluate(held_out), calls=1) / part_s))
    scores, batches = [], iter(loader)
    run.learn(next(batches))
    while meter.going_on():
        run.learn(next(batches))
        meter.ticked()
        if meter.ticks % every == 0:
            scores.append(run.evaluate(held_out))  # planted
    meter.report(excess=True)


if __name__ == "__main__":
    main()
