"""Two faults: ants are counted in few pictures; each epoch starts fresh workers and ends with a full test.

Each takes three quarters of a dose. A perfect diagnosis names both: workers that are started anew at each
epoch (first marked line), and evaluations much too often (second). Fix: `persistent_workers=True`, and a
test every two thousand steps.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, SIDE, RARELY = 0.75, 64, 2000


class Nests(Dataset):
    def __init__(self, pictures):
        self.pictures = pictures
        self.ants = np.random.default_rng(0).integers(0, 256, (16, 3, SIDE, SIDE), np.uint8)

    def __len__(self):
        return self.pictures

    def __getitem__(self, index):
        picture = torch.from_numpy(np.roll(self.ants[index % 16], index, 2))
        return picture, float(index % 50)


class Counter(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.density = nn.Conv2d(width, 1, 1)

    def forward(self, pictures):
        h = self.stem(pictures)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return F.softplus(self.density(h).float()).sum((1, 2, 3))


class Experiment:
    def __init__(self, meter):
        self.meter, self.batch, self.patience = meter, meter.pick(256, 6), RARELY
        channels = {"memory_format": torch.channels_last}
        self.net = Counter(*meter.pick((384, 7), (48, 6))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        held_out = torch.randint(0, 256, (self.batch, 3, SIDE, SIDE), dtype=torch.uint8)
        self.held_out, self.test_rounds, self.best = held_out.to(meter.device), 1, float("inf")

    def loader(self, steps, stay):
        options = {"num_workers": self.meter.pick(6, 1), "persistent_workers": stay}
        return DataLoader(Nests(steps * self.batch), self.batch, pin_memory=self.meter.gpu, **options)

    def count(self, pictures):
        pictures = pictures.float().div_(255).contiguous(memory_format=torch.channels_last)
        with self.meter.autocast():
            return self.net(pictures)

    def step(self, pictures, numbers):
        pictures, numbers = (part.to(self.meter.device, non_blocking=True) for part in (pictures, numbers))
        loss = F.smooth_l1_loss(self.count(pictures), numbers.float())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def test(self):
        self.net.eval()
        off = [self.count(self.held_out).sub(10).abs().mean() for _ in range(self.test_rounds)]
        self.net.train()
        self.best = min(self.best, torch.stack(off).mean().item())

    def run(self, loader, test_each_epoch):
        while self.meter.going_on():
            for pictures, numbers in loader:  # planted
                self.step(pictures, numbers)
                self.meter.ticked()
                if not test_each_epoch and self.meter.ticks % RARELY == 0:
                    self.test()
                if not self.meter.going_on():
                    return
            if test_each_epoch:
                self.test()  # planted


def starting_s(experiment):
    begin_s = time.perf_counter()
    for _ in range(4):
        list(experiment.loader(1, stay=False))
    return (time.perf_counter() - begin_s) / 4


def main():
    meter = Meter(__doc__)
    experiment, steps = Experiment(meter), 200
    pictures = torch.zeros(experiment.batch, 3, SIDE, SIDE, dtype=torch.uint8)
    blank = blanks(meter, pictures, torch.zeros(experiment.batch))
    meter.calibrate(lambda: experiment.step(*blank))
    if meter.dose:
        start_s = starting_s(experiment)
        steps = max(2, round(start_s / (PART * meter.added_s)))
        experiment.test_rounds = max(1, round(start_s / meter.timed_s(experiment.test)))
    experiment.run(experiment.loader(steps, stay=not meter.sick), test_each_epoch=meter.sick)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
