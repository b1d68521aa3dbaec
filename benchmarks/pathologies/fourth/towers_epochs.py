"""A two-tower recommender on one day's clicks: an epoch is short, and each builds its loader anew.

How short is the dose. A perfect diagnosis: at the beginning of each epoch the training waits until new
worker processes are there (the loop marked below). Fix: one loader, whose workers are kept.
"""

import time

import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clicks(Dataset):
    """The log in blocks of one batch each."""

    def __init__(self, blocks, batch, users, items):
        self.user = torch.randint(users, (blocks, batch))
        self.item = torch.randint(items, (blocks, batch))

    def __len__(self):
        return len(self.user)

    def __getitem__(self, block):
        return self.user[block].clone(), self.item[block].clone()


class Tower(nn.Module):
    def __init__(self, entities, width, depth):
        super().__init__()
        self.embedding = nn.Embedding(entities, 128)
        layers = [nn.Linear(128, width), nn.GELU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 128))

    def forward(self, ids):
        return F.normalize(self.net(self.embedding(ids)), dim=-1)


class Recommender:
    def __init__(self, meter, users, items):
        self.meter, shape = meter, meter.pick((4096, 3), (320, 3))
        self.towers = nn.ModuleList([Tower(users, *shape), Tower(items, *shape)]).to(meter.device)
        self.optimizer = torch.optim.Adam(self.towers.parameters(), 1e-4, fused=meter.gpu)

    def learn(self, users, items):
        users = users.to(self.meter.device, non_blocking=True)
        items = items.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            logits = self.towers[0](users) @ self.towers[1](items).T / 0.05
        loss = F.cross_entropy(logits.float(), torch.arange(len(users), device=users.device))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def loader_of(clicks, meter, keep):
    return DataLoader(
        clicks,
        batch_size=None,
        shuffle=True,
        num_workers=meter.pick(6, 1),
        pin_memory=meter.gpu,
        persistent_workers=keep,
    )


def train_epoch(model, loader, meter):
    for users, items in loader:  # planted
        model.learn(users, items)
        meter.ticked()
        if not meter.going_on():
            break


def start_s(clicks, meter):
    begin_s = time.perf_counter()
    for _ in range(2):
        for _ in loader_of(clicks, meter, keep=False):
            pass
    return (time.perf_counter() - begin_s) / 2


def main():
    meter = Meter(__doc__)
    users, items, batch = meter.pick((100_000, 50_000, 8192), (500, 200, 128))
    model = Recommender(meter, users, items)
    nobody = torch.zeros(batch, dtype=torch.long)
    blank = blanks(meter, nobody, nobody)
    meter.calibrate(lambda: model.learn(*blank))
    steps = 400
    if meter.dose:
        steps = max(2, round(start_s(Clicks(1, batch, users, items), meter) / meter.added_s))
    clicks = Clicks(steps, batch, users, items)
    kept = None if meter.sick else loader_of(clicks, meter, keep=True)
    while meter.going_on():
        train_epoch(model, kept or loader_of(clicks, meter, keep=False), meter)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
