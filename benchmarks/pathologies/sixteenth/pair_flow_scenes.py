"""Two faults: scenes for optical flow are made by the training thread, and the run is saved too often.

Each takes three quarters of a dose. A perfect diagnosis names both: loading in the training thread (first
marked line), and saving (second). Fix: a worker, and a file every few thousand steps.
"""

import copy
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

PART, SIDE, BATCH, RARELY, LEAST = 0.75, 24, 8, 4000, 24


class Scenes(IterableDataset):
    """A picture, where each point of it went, and what it looks like then; cut down from larger ones."""

    def __init__(self, side):
        self.side, self.rng = side, np.random.default_rng(0)
        self.pictures = self.rng.random((6, side, side), dtype=np.float32)
        self.y, self.x = np.mgrid[:side, :side].astype(np.float32)

    def drift(self):
        a, b, turn, grow = self.rng.normal(0, [1.5, 1.5, 0.04, 0.03])
        y, x = self.y - self.side / 2, self.x - self.side / 2
        return a + grow * x - turn * y, b + grow * y + turn * x

    def warped(self, picture, u, v):
        x, y = (self.x + u).clip(0, self.side - 1.01), (self.y + v).clip(0, self.side - 1.01)
        left, top = x.astype(int), y.astype(int)
        right, low = x - left, y - top
        upper = picture[top, left] * (1 - right) + picture[top, left + 1] * right
        lower = picture[top + 1, left] * (1 - right) + picture[top + 1, left + 1] * right
        return upper * (1 - low) + lower * low

    def scene(self):
        picture = self.pictures[self.rng.integers(6)]
        u, v = self.drift()
        after = self.warped(picture, u, v) + self.rng.normal(0, 0.01, picture.shape)
        y, x = self.rng.integers(0, self.side - SIDE + 1, 2)
        cut = np.s_[y : y + SIDE, x : x + SIDE]
        return np.stack([picture[cut], after[cut], u[cut], v[cut]]).astype(np.float32)

    def __iter__(self):
        while True:
            yield torch.from_numpy(np.stack([self.scene() for _ in range(BATCH)]))


class FlowNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.LeakyReLU(0.1))
        self.guess = nn.Sequential(
            nn.Conv2d(2 * width + 9, 2 * width, 3, padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(2 * width, width, 3, padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(width, 2, 3, padding=1),
        )

    @staticmethod
    def likeness(one, other):
        around = F.unfold(other, 3, padding=1).unflatten(1, (one.shape[1], 9))
        return (one.flatten(2)[:, :, None] * around).mean(1).unflatten(2, one.shape[2:])

    def forward(self, before, after):
        one, other = self.look(before), self.look(after)
        return self.guess(torch.cat([one, other, self.likeness(one, other)], 1))


class Run:
    def __init__(self, device):
        self.device, self.net = device, FlowNet().to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=2e-4)
        self.average, self.kept = copy.deepcopy(self.net), torch.rand(60, BATCH, 4, SIDE, SIDE)

    def step(self, scenes):
        before, after, flow = scenes.to(self.device).split((1, 1, 2), 1)
        loss = (self.net(before, after) - flow).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.net.parameters()), 0.01)

    def save(self, path):
        """With the hardest scenes, so that they are not lost."""
        partial = path.with_suffix(".part")
        with partial.open("wb") as file:
            state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state | {"average": self.average, "hard": self.kept}, file)
            os.fsync(file.fileno())
        partial.replace(path)


def main():
    meter = Meter(__doc__)
    run = Run(meter.device)
    meter.calibrate(lambda: run.step(run.kept[0]))
    part_s, area, save_every = PART * meter.added_s, LEAST**2, RARELY
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flow.pt"
        if meter.dose:
            making = lambda area: Scenes(round(area**0.5)).scene  # noqa: E731
            area = max(area, amount_taking(meter, making, area, 120**2, part_s / BATCH))
        if meter.sick:
            save_every = max(1, round(meter.timed_s(lambda: run.save(path), calls=5) / part_s))
        scenes = Scenes(round(area**0.5))
        batches = iter(scenes if meter.sick else DataLoader(scenes, batch_size=None, num_workers=1))
        run.step(next(batches))
        while meter.going_on():
            with meter.injecting():
                batch = next(batches)  # planted
            run.step(batch)
            meter.ticked()
            if meter.ticks % save_every == 0:
                with meter.injecting():
                    run.save(path)  # planted
        meter.report()
        del batches


if __name__ == "__main__":
    main()
