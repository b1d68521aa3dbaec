"""Where cars at a crossing will go; a collate function turns them all into the first one's view.

How many cars a scene has is the dose. A perfect diagnosis: the collate function is slow (either line marked
below). Fix: one rotation by NumPy for all points of a batch.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

POINTS = 32


class Crossings(Dataset):
    """Tracks of cars, and where the first one went."""

    def __init__(self, cars):
        rng = np.random.default_rng(0)
        self.tracks = rng.standard_normal((16, cars, POINTS, 2), dtype=np.float32)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.tracks[index % 16], index % 7 - 3.0


def point_by_point(scenes):
    """The nearest car at each time, as the first one sees it."""
    views = torch.zeros(len(scenes), 2, POINTS)
    for row, (tracks, heading) in enumerate(scenes):
        cos, sin = math.cos(heading), math.sin(heading)
        ahead, aside = [math.inf] * POINTS, [0.0] * POINTS
        for car in tracks:
            for n in range(POINTS):
                x, y = float(car[n, 0]), float(car[n, 1])  # planted
                if cos * x - sin * y < ahead[n]:  # planted
                    ahead[n], aside[n] = cos * x - sin * y, sin * x + cos * y
        views[row] = torch.tensor([ahead, aside])
    return views.mT, torch.tensor([heading for _, heading in scenes])


def all_at_once(scenes):
    tracks = np.stack([tracks for tracks, _ in scenes])
    headings = np.array([heading for _, heading in scenes], np.float32)
    cos, sin = np.cos(headings), np.sin(headings)
    turn = np.stack([np.stack([cos, sin], 1), np.stack([-sin, cos], 1)], 1)
    seen = tracks.reshape(len(scenes), -1, 2) @ turn
    seen = seen.reshape(tracks.shape)
    nearest = seen[..., 0].argmin(1)[:, None, :, None]
    views = np.take_along_axis(seen, nearest, 1)[:, 0]
    return torch.from_numpy(np.ascontiguousarray(views)), torch.from_numpy(headings)


class MotionNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.ahead = nn.Linear(2, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, views):
        h = self.enter(views)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.ahead(h.mean(1)).float()[:, 0]


def cars_taking(meter, batch, wanted_s):
    """How many cars make the collate function take so long."""
    times = []
    for cars in (2, 10):
        crossings = Crossings(cars)
        scenes = [crossings[n] for n in range(batch)]
        times.append(meter.timed_s(lambda s=scenes: point_by_point(s), calls=3))
    car_s = (times[1] - times[0]) / 8
    return max(1, round((wanted_s - times[0]) / car_s) + 2)


def main():
    meter = Meter(__doc__)
    batch, workers = meter.pick(256, 4), meter.pick(6, 1)
    net = MotionNet(*meter.pick((4096, 5), (256, 5))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(views, headings):
        views, headings = (part.to(meter.device, non_blocking=True) for part in (views, headings))
        with meter.autocast():
            guess = net(views)
        loss = F.mse_loss(guess, headings.float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, POINTS, 2), torch.zeros(batch))
    meter.calibrate(lambda: learn(*blank))
    cars = cars_taking(meter, batch, workers * meter.beside_s) if meter.dose else 4
    together = point_by_point if meter.sick else all_at_once
    options = {"num_workers": workers, "pin_memory": meter.gpu, "collate_fn": together}
    stream = iter(DataLoader(Crossings(cars), batch, **options))
    for _ in range(workers):
        learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            scenes = next(stream)
        learn(*scenes)
        meter.ticked()
    meter.report(excess=meter.gpu)
    del stream


if __name__ == "__main__":
    main()
