"""Healthy control: catchers of balls learn off-policy from a replay on the GPU, which fills up at first.

Tempting: the GPU's memory grows for some hundred steps, page by page; but to a limit, and a step takes as
long with many pages as with one. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, MOVES = 24, 8


class PagedReplay:
    """A page is asked for when the last one is full; with all of them full, the oldest is written over."""

    def __init__(self, rows, pages, device):
        self.rows, self.most, self.device = rows, pages, device
        self.pages, self.number, self.at = [torch.randn(rows, 2 * SEEN + 1, device=device)], 0, 0

    def add(self, steps):
        if self.at + len(steps) > self.rows:
            self.number, self.at = (self.number + 1) % self.most, 0
            if self.number == len(self.pages):
                self.pages.append(torch.zeros(self.rows, 2 * SEEN + 1, device=self.device))
        self.pages[self.number][self.at : self.at + len(steps)] = steps
        self.at += len(steps)

    def sample(self, count):
        page = self.pages[int(torch.randint(len(self.pages), ()))]
        return page[torch.randint(self.rows, (count,), device=self.device)].split((SEEN, SEEN, 1), 1)


class Values(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, MOVES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h).float()


class Catchers:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.values = Values(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.values.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(meter.pick(4096, 16), SEEN, device=meter.device)
        self.replay = PagedReplay(meter.pick(65_536, 256), 24, meter.device)

    @torch.no_grad()
    def play(self):
        """They act by an older policy, in closed form."""
        after = 0.95 * self.seen + 0.1 * torch.randn_like(self.seen)
        reward = -after[:, :2].abs().sum(1, keepdim=True)
        self.replay.add(torch.cat([self.seen, after, reward], 1))
        self.seen = after

    def tick(self):
        self.play()
        seen, after, reward = self.replay.sample(self.rows)
        with self.meter.autocast():
            with torch.no_grad():
                ahead = self.values(after).amax(1)
            value = self.values(seen).amax(1)
        loss = F.smooth_l1_loss(value, reward[:, 0] + 0.98 * ahead)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    catchers = Catchers(meter)
    meter.calibrate(catchers.tick)
    while meter.going_on():
        catchers.tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
