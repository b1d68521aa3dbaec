"""Healthy control: a masked model of tables, whose masks NumPy draws in every step, on the training thread.

Tempting: host work in each step, between two updates; but it is small, and done while the GPU still has the
last step before it. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there
is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

COLUMNS = 64


class Masker:
    """Hides neighbouring columns of each row."""

    def __init__(self, rows, wide):
        self.rng, self.rows, self.wide = np.random.default_rng(0), rows, wide

    def draw(self):
        first = self.rng.integers(0, COLUMNS - self.wide, (self.rows, 1))
        places = np.arange(COLUMNS)
        return torch.from_numpy((places >= first) & (places < first + self.wide))


class TableModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.unknown = nn.Parameter(torch.zeros(COLUMNS))
        self.enter, self.leave = nn.Linear(COLUMNS, width), nn.Linear(width, COLUMNS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, table, hidden):
        h = self.enter(torch.where(hidden, self.unknown, table))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 128)
    model = TableModel(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=meter.gpu)
    table = torch.randn(rows, COLUMNS, device=meter.device)
    masker = Masker(rows, 12)

    def tick():
        hidden = masker.draw()
        hidden = (hidden.pin_memory() if meter.gpu else hidden).to(meter.device, non_blocking=True)
        with meter.autocast():
            guess = model(table, hidden)
        off = (guess - table).square() * hidden
        optimizer.zero_grad(set_to_none=True)
        off.mean().backward()
        optimizer.step()

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
