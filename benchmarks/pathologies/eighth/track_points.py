"""Points followed through a video: what a point looks like is looked up frame by frame, and level by level.

How many frames a clip has is the dose. A perfect diagnosis: launch-bound, hundreds of small kernels from the
look-up marked below, forward and backward, and the GPU waits for the next one. Fix: all frames of a level in
one call.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

POINTS, LOOKS, LEVELS = 16, 8, 2


class Pyramid(nn.Module):
    """Feature maps of each frame in two sizes, from pixels by two small products."""

    def __init__(self):
        super().__init__()
        self.looks = nn.Conv2d(3, LOOKS, 1)

    def forward(self, frames):
        fine = self.looks(frames)
        return [fine, F.avg_pool2d(fine, 2)]


class Correlations:
    def frame_by_frame(self, levels, tracks):
        """Tracks are (frames, points, 2)."""
        found = []
        for n, places in enumerate(tracks.unbind(0)):
            seen = []
            for level in levels:
                look = F.grid_sample(level[n : n + 1], places[None, None], align_corners=False)  # planted
                seen.append(look[0, :, 0])
            found.append(torch.cat(seen).T)
        return torch.stack(found)

    def at_once(self, levels, tracks):
        looks = [F.grid_sample(level, tracks[:, None], align_corners=False)[:, :, 0] for level in levels]
        return torch.cat(looks, 1).mT


class Refiner(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.move = nn.Linear(LEVELS * LOOKS, width), nn.Linear(width, 2)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, looks):
        h = self.enter(looks)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.move(h).float()


class Tracker:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.pyramid, self.correlations = Pyramid().to(meter.device), Correlations()
        self.refiner = Refiner(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        weights = [*self.pyramid.parameters(), *self.refiner.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=meter.gpu)
        self.truth = torch.rand(self.rows, 2, device=meter.device)
        self.record(4)

    def record(self, frames):
        self.frames = torch.rand(frames, 3, 16, 16, device=self.meter.device)
        self.tracks = torch.rand(frames, POINTS, 2, device=self.meter.device) * 2 - 1

    def step(self, look_up):
        looks = look_up(self.pyramid(self.frames), self.tracks).flatten(0, 1)
        looks = looks.repeat(-(-self.rows // len(looks)), 1)[: self.rows]
        with self.meter.autocast():
            moved = self.refiner(looks)
        loss = F.huber_loss(moved, self.truth)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def host_s_of_a_frame(tracker):
    tracker.record(40)

    def alone():
        levels = tracker.pyramid(tracker.frames)
        tracker.correlations.frame_by_frame(levels, tracker.tracks).sum().backward()

    return tracker.meter.timed_s(alone, calls=6) / 40


def main():
    meter = Meter(__doc__)
    tracker = Tracker(meter)
    correlations = tracker.correlations
    meter.calibrate(lambda: tracker.step(correlations.at_once))
    if meter.dose:
        tracker.record(max(4, round(meter.host_s / host_s_of_a_frame(tracker))))
    look_up = correlations.frame_by_frame if meter.sick else correlations.at_once
    while meter.going_on():
        tracker.step(look_up)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
