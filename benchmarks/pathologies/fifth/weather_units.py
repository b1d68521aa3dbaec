"""A weather model whose fields go through a list of unit changes on the GPU, a pass over the globe each.

How long the list is is the dose. A perfect diagnosis: a chain of elementwise kernels, bound by the GPU's
memory (marked below). Fix: the changes are folded into one scale and one offset beforehand.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


@dataclass(frozen=True)
class Change:
    """From one unit to the next, for each kind of field."""

    offset: torch.Tensor
    scale: torch.Tensor

    def __call__(self, fields):
        return fields.sub(self.offset).mul(self.scale)  # planted

    def then(self, other):
        return Change(self.offset + other.offset / self.scale, self.scale * other.scale)


def some_changes(kinds, count, device):
    shape = (kinds, 1, 1)
    return [
        Change(
            torch.full(shape, 0.01 * (n % 5), device=device),
            torch.full(shape, 1.01 if n % 2 else 0.99, device=device),
        )
        for n in range(count)
    ]


def folded(changes):
    whole = changes[0]
    for change in changes[1:]:
        whole = whole.then(change)
    return [whole]


class Globe(nn.Module):
    """Coarse cells become tokens, and the fields of tomorrow are read from them."""

    def __init__(self, kinds, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(kinds, width), nn.Linear(width, kinds)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, cells):
        h = self.enter(cells)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return cells + self.leave(h)


class Model:
    def __init__(self, meter):
        self.meter, (self.kinds, high, wide, self.coarse) = (
            meter,
            meter.pick((64, 512, 1024, 8), (4, 64, 64, 8)),
        )
        self.fields = torch.rand(self.kinds, high, wide, device=meter.device)
        self.net = Globe(self.kinds, *meter.pick((4096, 5), (48, 1))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.changes = some_changes(self.kinds, 1, meter.device)

    @torch.no_grad()
    def prepared(self):
        fields = self.fields
        for change in self.changes:
            fields = change(fields)
        return F.avg_pool2d(fields[None], self.coarse)[0].flatten(1).T.contiguous()

    def step(self):
        cells = self.prepared()
        with self.meter.autocast():
            ahead = self.net(cells)
        loss = F.mse_loss(ahead.float(), cells.roll(1, 0))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    model = Model(meter)
    meter.calibrate(model.step)
    if meter.dose:
        model.changes = some_changes(model.kinds, 9, meter.device)
        nine_s = meter.timed_s(model.prepared, calls=5)
        model.changes = model.changes[:1]
        change_s = (nine_s - meter.timed_s(model.prepared, calls=5)) / 8
        count = 1 + max(1, round(meter.added_s / change_s))
        changes = some_changes(model.kinds, count, meter.device)
        model.changes = changes if meter.sick else folded(changes)
    while meter.going_on():
        model.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
