"""Healthy control: a compiled model of tables, with rows in two widths by turns.

Tempting: shapes change and torch compiles; but there are two of them, and both are compiled at the start. A
perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import itertools

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

KINDS = 20


class CellModel(nn.Module):
    """Cells of a row attend to each other."""

    def __init__(self, dim, depth):
        super().__init__()
        self.kind, self.value = nn.Embedding(KINDS, dim), nn.Linear(1, dim)
        self.mix = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(depth))
        self.think = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.target = nn.Linear(dim, 1)

    def forward(self, kinds, values):
        h = self.kind(kinds) + self.value(values[..., None])
        for mix, think in zip(self.mix, self.think, strict=True):
            q, k, v = (part[:, None] for part in mix(h).chunk(3, -1))
            h = h + F.scaled_dot_product_attention(q, k, v)[:, 0]
            h = h + F.gelu(think(h))
        return self.target(h.mean(1))[:, 0]


def tables(cells, widths, device):
    for wide in itertools.cycle(widths):
        rows = cells // wide
        kinds = torch.arange(wide, device=device).expand(rows, -1) % KINDS
        yield kinds, torch.rand(rows, wide, device=device), torch.rand(rows, device=device)


def main():
    meter = Meter(__doc__)
    net = CellModel(*meter.pick((1024, 8), (96, 3))).to(meter.device)
    compiled = torch.compile(net, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    rows = tables(*meter.pick((32_768, (32, 64)), (512, (8, 16))), meter.device)

    def tick():
        kinds, values, truth = next(rows)
        with meter.autocast():
            guess = compiled(kinds, values)
        loss = F.mse_loss(guess.float(), truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
