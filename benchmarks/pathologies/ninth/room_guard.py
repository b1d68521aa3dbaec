"""Rooms are labelled from feature maps; a guard against running out of memory empties the cache.

The limit is that of a small board, so the guard strikes at each look; how often it looks is the dose. A
perfect diagnosis: the allocator gives memory back to the driver and asks for it again all the time (marked
below). Fix: no guard, or a limit that fits the card.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CHANNELS, LABELS, SMALL_BOARD = 32, 40, 256 * 1024**2


class MemoryGuard:
    """Looks at what is reserved after some steps; `every` 0: never."""

    def __init__(self, limit, gpu):
        self.limit, self.gpu, self.every = limit, gpu, 0

    def look(self):
        if self.gpu and torch.cuda.memory_reserved() > self.limit:
            torch.cuda.empty_cache()  # planted

    def after(self, step):
        if self.every and step % self.every == 0:
            self.look()


class RoomNet(nn.Module):
    """Convolutions with a way around, from coarse to fine."""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(CHANNELS, width, 2, stride=2)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.fine = nn.ConvTranspose2d(width, LABELS, 2, stride=2)

    def forward(self, maps):
        h = self.stem(maps)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.fine(h)


class Labelling:
    def __init__(self, meter):
        self.meter, (batch, side) = meter, meter.pick((32, 64), (2, 16))
        channels = {"memory_format": torch.channels_last}
        self.net = RoomNet(*meter.pick((512, 8), (16, 2))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        maps = torch.rand(batch, CHANNELS, side, side, device=meter.device)
        self.maps = maps.contiguous(**channels)
        self.labels = torch.randint(LABELS, (batch, side, side), device=meter.device)

    def step(self):
        with self.meter.autocast():
            scores = self.net(self.maps)
        loss = F.cross_entropy(scores.float(), self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    labelling, guard = Labelling(meter), MemoryGuard(SMALL_BOARD, meter.gpu)
    meter.calibrate(labelling.step)
    if meter.sick and meter.gpu:
        fresh_s = meter.timed_s(lambda: (labelling.step(), guard.look()), calls=6) - meter.healthy_s
        guard.every = max(1, round(fresh_s / meter.added_s))
    while meter.going_on():
        labelling.step()
        meter.ticked()
        guard.after(meter.ticks)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
