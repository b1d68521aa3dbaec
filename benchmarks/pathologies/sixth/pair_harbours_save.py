"""Two faults: ships in radar pictures are cut out by the training process itself, which also saves too often.

Each takes three quarters of a dose. A perfect diagnosis names both: a loader without workers (first marked
line), and checkpoints every few steps (second). Fix: workers; no checkpoint before the end.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, SHIPS = 0.75, 9


class Harbours(Dataset):
    """A cut of a picture, its speckle smoothed in some rounds."""

    def __init__(self, side, rounds):
        self.side, self.rounds = side, rounds
        self.radar = np.random.default_rng(0).gamma(2.0, 1.0, (512, 512)).astype(np.float32)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        top, left = index * 17 % (512 - self.side), index * 29 % (512 - self.side)
        cut = np.log(self.radar[top : top + self.side, left : left + self.side])
        for _ in range(self.rounds):
            middle = np.median(np.stack([np.roll(cut, n, 0) for n in (-1, 0, 1)]), axis=0)
            cut = 0.5 * cut + 0.5 * middle
        return cut[None], index % SHIPS


class ShipNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.ship = nn.Linear(width, SHIPS)

    def forward(self, cuts):
        h = self.stem(cuts)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.ship(h.mean((2, 3)))


class Run:
    def __init__(self, meter, folder):
        self.meter, self.folder = meter, folder
        self.net = ShipNet(*meter.pick((384, 8), (64, 10))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)

    def learn(self, cuts, ships):
        cuts, ships = (t.to(self.meter.device, non_blocking=True) for t in (cuts, ships))
        with self.meter.autocast():
            loss = F.cross_entropy(self.net(cuts).float(), ships)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def save(self):
        state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state, self.folder / "ships.pt")  # planted


def rounds_taking(meter, side, wanted_s):
    times = []
    for rounds in (0, 5):
        harbours = Harbours(side, rounds)
        times.append(meter.timed_s(lambda h=harbours: h[7], calls=20))
    return max(0, round((wanted_s - times[0]) * 5 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (4, 64))
    with tempfile.TemporaryDirectory() as folder:
        run = Run(meter, Path(folder))
        blank = blanks(meter, torch.zeros(batch, 1, side, side), torch.zeros(batch, dtype=torch.long))
        healthy_s = meter.calibrate(lambda: run.learn(*blank))
        part_s, every = PART * meter.added_s, 100_000
        beside_s = healthy_s if meter.gpu and meter.dose else 0.0
        harbours = Harbours(side, rounds_taking(meter, side, (part_s + beside_s) / batch))
        workers = 0 if meter.sick else meter.pick(12, 1)
        loader = DataLoader(harbours, batch, True, num_workers=workers, pin_memory=meter.gpu)  # planted
        if meter.sick:
            every = max(1, round(meter.timed_s(run.save, calls=5) / part_s))
        cuts = iter(loader)
        run.learn(*next(cuts))
        while meter.going_on():
            with meter.injecting():
                batch = next(cuts)
            run.learn(*batch)
            meter.ticked()
            if meter.ticks % every == 0:
                with meter.injecting():
                    run.save()
        meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
