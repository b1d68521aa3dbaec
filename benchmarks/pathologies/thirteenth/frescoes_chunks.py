"""Cracks in frescoes, piece by piece: a step goes over four lots of pieces, and adds up what they say.

A helper goes through the lots and makes sure that the memory of one is free before the next. After how many
lots it does is the dose. A perfect diagnosis: the allocator's cache is emptied again and again, and all
memory is asked for anew (marked below). Fix: the cache is left alone.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDES, CRACKS, LOTS, NEVER = 108, 3, 4, 10**9


class Pieces:
    """Gives lot after lot; `every`: after so many lots memory is made free."""

    def __init__(self, lots, every=NEVER):
        self.lots, self.every, self.given = lots, every, 0

    def free(self):
        if self.lots.is_cuda:
            torch.cuda.empty_cache()  # planted

    def __iter__(self):
        for lot in self.lots.unbind():
            yield lot
            self.given += 1
            if self.given % self.every == 0:
                self.free()


class CrackNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.cracks = nn.Linear(SIDES, width), nn.Linear(width, CRACKS)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))

    def forward(self, pieces):
        h = self.enter(pieces)
        for norm, wide, narrow in zip(self.norms, self.wide, self.narrow, strict=True):
            h = h + narrow(F.gelu(wide(norm(h))))
        return self.cracks(h).float()


class Restoration:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(4096, 32)
        self.net = CrackNet(*meter.pick((2048, 3), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.pieces = Pieces(torch.rand(LOTS, rows, SIDES, device=meter.device))
        self.cracks = torch.arange(rows, device=meter.device) % CRACKS

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        for lot in self.pieces:
            with self.meter.autocast():
                scores = self.net(lot)
            loss = F.cross_entropy(scores, self.cracks) / LOTS
            loss.backward()
        self.optimizer.step()


def lots_between(meter, restoration):
    """One more emptying costs what it takes itself, and what the memory takes that is asked for anew."""
    restoration.pieces.every = LOTS
    once_s = meter.timed_s(restoration.step, calls=8) - meter.healthy_s
    return max(1, round(LOTS * once_s / meter.added_s))


def main():
    meter = Meter(__doc__)
    restoration = Restoration(meter)
    meter.calibrate(restoration.step)
    if meter.sick and meter.gpu:
        restoration.pieces.every = lots_between(meter, restoration)
    while meter.going_on():
        restoration.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
