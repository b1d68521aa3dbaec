"""Curious explorers of caves: what is like nothing in memory is worth a visit, and nothing is ever forgotten.

How much is remembered of each step is the dose, so that a run's mean is what the dose says: the memory, and
the time to look through it, grow from step to step. A perfect diagnosis: the GPU's memory grows steadily,
by the pages added at the line marked below. Fix: the last page is written over.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, MOVES = 40, 6


class EpisodicMemory:
    """Pages of keys, each a row of the net's last hidden layer."""

    def __init__(self, rows, size, like):
        self.rows, self.at, self.forgets = rows, 0, True
        self.pages = [torch.zeros(rows, size, device=like.device, dtype=like.dtype)]

    def remember(self, keys):
        if self.at + len(keys) > self.rows:
            if not self.forgets:
                self.pages.append(torch.zeros_like(self.pages[0]))  # planted
            self.at = 0
        self.pages[-1][self.at : self.at + len(keys)] = keys
        self.at += len(keys)

    def likeness(self, probes):
        """To the nearest of all keys."""
        nearest = [(page @ probes.T).amax(0) for page in self.pages]
        return torch.stack(nearest).amax(0)


class Explorer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, MOVES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float(), h


class Exploration:
    def __init__(self, meter):
        self.meter, (self.rows, width, depth, page, self.probes) = (
            meter,
            meter.pick((8192, 4096, 5, 32768, 768), (64, 64, 3, 256, 16)),
        )
        self.net = Explorer(width, depth).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(self.rows, SEEN, device=meter.device)
        like = torch.empty(0, device=meter.device, dtype=meter.pick(torch.bfloat16, torch.float32))
        self.memory, self.kept = EpisodicMemory(page, width, like), 16

    def step(self):
        with self.meter.autocast():
            scores, keys = self.net(self.seen)
        keys = keys.detach()
        known = self.memory.likeness(keys[: self.probes])
        self.memory.remember(keys[: self.kept])
        worth = torch.zeros_like(scores[:, 0])
        worth[: self.probes] = -known.float().tanh()
        loss = F.mse_loss(scores[:, 0], worth) + 0.01 * scores.logsumexp(1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def kept_for(meter, run):
    """Rows of each step, if what is added on average is to be the dose."""
    memory = run.memory
    probes = torch.randn_like(memory.pages[0][: run.probes])
    row_s = meter.timed_s(lambda: memory.likeness(probes), calls=10) / memory.rows
    ticks = 0.85 * meter.seconds / (meter.healthy_s + meter.added_s)
    return max(16, min(run.rows, round(2 * meter.added_s / row_s / ticks)))


def main():
    meter = Meter(__doc__)
    run = Exploration(meter)
    meter.calibrate(run.step)
    if meter.dose:
        run.kept = kept_for(meter, run)
    run.memory.forgets = not meter.sick
    while meter.going_on():
        run.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
