"""Healthy control: which trees of a forest are felled next, from a table that lies on the GPU.

Tempting: in each step several arrays are copied to the GPU from ordinary memory; but they are the numbers
of rows, a few kilobytes, and such copies are done with at once. A perfect diagnosis: healthy, nothing to
mend. The dose is taken and does nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

MEASURED, KINDS, TREES, LOOKS = 48, 4, 20_000, 32


class Foresters:
    """Each says which trees to look at, and how sure it is."""

    def __init__(self, rows):
        self.rng, self.rows = np.random.default_rng(0), rows

    def choose(self):
        trees = self.rng.integers(0, TREES, self.rows)
        sure = self.rng.random(self.rows, dtype=np.float32)
        return trees, sure, (trees % KINDS).astype(np.int64)


class ForestNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.kind = nn.Linear(MEASURED, width), nn.Linear(width, KINDS)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(depth))
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, trees):
        h = self.enter(trees)
        for norm, layer in zip(self.norms, self.body, strict=True):
            h = h + F.silu(layer(norm(h)))
        return self.kind(h).float()


class Felling:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(256, 6)
        self.net = ForestNet(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.table = torch.randn(TREES, MEASURED, device=meter.device)
        self.foresters = Foresters(rows)

    def step(self):
        chosen = self.foresters.choose()
        trees, sure, kinds = (
            torch.from_numpy(part).to(self.meter.device, non_blocking=True) for part in chosen
        )
        looks = self.table[trees].repeat(LOOKS, 1)
        with self.meter.autocast():
            scores = self.net(looks + 0.05 * torch.randn_like(looks))
        losses = F.cross_entropy(scores, kinds.repeat(LOOKS), reduction="none")
        loss = (losses * sure.repeat(LOOKS)).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    felling = Felling(meter)
    meter.calibrate(felling.step)
    while meter.going_on():
        felling.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
