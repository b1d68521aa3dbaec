"""Healthy control: ski tracks as ragged lists of points, which the collate function pads one by one.

Tempting: the collate function is written in plain Python and is not quick; but the workers have long finished
a batch when it is asked for. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

POINTS, RUNS = 12, 5


class Tracks(IterableDataset):
    """Tracks of different lengths, without end, and what run it was."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.tracks = [rng.random((int(size), 3)).tolist() for size in rng.integers(5, POINTS + 1, 64)]

    def __iter__(self):
        number = 0
        while True:
            number += 1
            yield self.tracks[number % 64], number % RUNS


def pad(tracks):
    padded = []
    for track, _ in tracks:
        row = [part for point in track for part in point]
        padded.append(row + [0.0] * (3 * POINTS - len(row)))
    return torch.tensor(padded), torch.tensor([run for _, run in tracks])


class TrackNet(nn.Module):
    """Each track is looked at many times, a little shifted."""

    def __init__(self, looks, width, depth):
        super().__init__()
        self.looks, self.enter, self.run = looks, nn.Linear(3 * POINTS, width), nn.Linear(width, RUNS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, tracks):
        tracks = tracks.repeat(self.looks, 1)
        h = self.enter(tracks + 0.02 * torch.randn_like(tracks))
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.run(h).float().unflatten(0, (self.looks, -1)).mean(0)


def main():
    meter = Meter(__doc__)
    batch, workers = meter.pick((256, 6), (16, 1))
    net = TrackNet(*meter.pick((32, 4096, 5), (12, 288, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(tracks, runs):
        tracks, runs = (part.to(meter.device, non_blocking=True) for part in (tracks, runs))
        with meter.autocast():
            scores = net(tracks)
        loss = F.cross_entropy(scores, runs)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, 3 * POINTS), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    options = {"num_workers": workers, "collate_fn": pad, "pin_memory": meter.gpu}
    stream = iter(DataLoader(Tracks(), batch, **options))
    for _ in range(2 * workers):
        learn(*next(stream))
    while meter.going_on():
        learn(*next(stream))
        meter.ticked()
    meter.report()
    del stream


if __name__ == "__main__":
    main()
