"""Depth from two cameras; a line of progress shows the loss after every step, before pairs are chosen anew.

Formatting the loss waits for the GPU, and the choice is then made while it has nothing to do. Doses 1 to 3
cost about 17, 33 and 46 %. A perfect diagnosis names the wait, marked below. Fix: a line now and then.
"""

import io

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SHARES = (0.0, 0.2, 0.5, 0.85)


class Progress:
    """The last line of a terminal, or of a log."""

    def __init__(self, every):
        self.every, self.out, self.count = every, io.StringIO(), 0

    def show(self, loss):
        self.count += 1
        if self.count % self.every == 0:
            self.out.write(f"\rstep {self.count} loss {loss:.4f}")  # planted


class Matching:
    """Rows of the rectified pictures that are worth learning from, chosen by NumPy."""

    def __init__(self, rows, rounds=0):
        self.rng, self.rows, self.rounds = np.random.default_rng(0), rows, rounds
        self.worth = self.rng.random((256, 64))

    def choose(self):
        worth = self.worth
        for _ in range(self.rounds):
            worth = 0.9 * worth + 0.1 * np.roll(worth, 1, 0)
        best = np.argsort(worth[:, 0])
        return torch.from_numpy(np.resize(best % self.rows, self.rows))


class Stereo(nn.Module):
    def __init__(self, wide, width, depth):
        super().__init__()
        self.enter = nn.Linear(2 * wide, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.disparity = nn.Linear(width, wide)

    def forward(self, left, right):
        h = self.enter(torch.cat([left, right], 1))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return F.softplus(self.disparity(h).float())


def main():
    meter = Meter(__doc__)
    rows, wide = meter.pick((8192, 256), (64, 64))
    net = Stereo(wide, *meter.pick((4096, 5), (64, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    left, right, truth = (torch.rand(rows, wide, device=meter.device) for _ in range(3))

    def step(chosen):
        chosen = (chosen.pin_memory() if meter.gpu else chosen).to(meter.device, non_blocking=True)
        with meter.autocast():
            guess = net(left[chosen], right[chosen])
        loss = F.smooth_l1_loss(guess, truth[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    matching = Matching(rows)
    meter.calibrate(lambda: step(matching.choose()))
    plain_s = meter.timed_s(matching.choose, calls=10)
    matching.rounds = 40
    round_s = (meter.timed_s(matching.choose, calls=10) - plain_s) / 40
    matching.rounds = max(0, round((SHARES[meter.dose] * meter.healthy_s - plain_s) / round_s))
    progress = Progress(1 if meter.sick else 500)
    while meter.going_on():
        progress.show(step(matching.choose()))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
