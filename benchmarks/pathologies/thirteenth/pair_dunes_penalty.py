"""Two faults: sizes of many small weights are added up one by one, and all is saved much too often.

Each takes three quarters of a dose. A perfect diagnosis names both: launch-bound, by some tiny kernels for
each weight, forward and backward (first marked line), and checkpoints (second). Fix: the optimizer's weight
decay, and a checkpoint every few thousand steps.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter, beside_orders_s
from torch import nn

WIND, OWN, PART, RARELY = 50, 12, 0.75, 5000


class DuneNet(nn.Module):
    """A small vector for each dune, and convolutions over the sand between them."""

    def __init__(self, dunes, width, depth):
        super().__init__()
        self.own = nn.ParameterList(torch.randn(OWN) for _ in range(dunes))
        self.stem, self.moves = nn.Conv2d(OWN, width, 1), nn.Conv2d(width, 2, 1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, sand, dune):
        own = F.embedding(dune % len(self.own), torch.stack(list(self.own)))
        h = self.stem((sand + own[:, :, None, None]).contiguous(memory_format=torch.channels_last))
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.moves(h).float()

    def penalty(self):
        return sum(own.square().sum() for own in self.own)  # planted


class Desert:
    def __init__(self, meter, dunes, penalized):
        self.meter, (batch, side), self.penalized = meter, meter.pick((256, 16), (6, 10)), penalized
        net = DuneNet(dunes, *meter.pick((384, 7), (40, 3)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        decay = {"weight_decay": 0.0 if penalized else 1e-6}
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu, **decay)
        self.sand = torch.randn(batch, OWN, side, side, device=meter.device)
        self.dune = torch.arange(batch, device=meter.device)
        self.moved = torch.randn(batch, 2, side, side, device=meter.device)

    def step(self):
        with self.meter.autocast():
            moves = self.net(self.sand, self.dune)
        loss = F.mse_loss(moves, self.moved)
        if self.penalized:
            loss = loss + 1e-6 * self.net.penalty()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def save(self, path):
        weights = {name: weight for name, weight in self.net.state_dict().items() if "own" not in name}
        torch.save(weights, path)  # planted


def dune_s(meter):
    """What the host needs for one more, forward and backward."""
    own = nn.ParameterList(torch.randn(OWN) for _ in range(64)).to(meter.device)
    return meter.timed_s(lambda: sum(one.square().sum() for one in own).backward(), calls=6) / 64


def main():
    meter, dunes, every = Meter(__doc__), 8, RARELY
    desert = Desert(meter, dunes, penalized=False)
    meter.calibrate(desert.step)
    part_s = PART * meter.added_s
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "desert.pt")
        if meter.dose:
            wanted_s = beside_orders_s(meter, desert.step, meter.host_s - (1 - PART) * meter.added_s)
            dunes = max(8, round(wanted_s / dune_s(meter)))
        desert = Desert(meter, dunes, penalized=meter.sick)
        desert.step()
        if meter.sick:
            every = max(1, round(meter.timed_s(lambda: desert.save(path)) / part_s))
        while meter.going_on():
            desert.step()
            meter.ticked()
            if meter.ticks % every == 0:
                desert.save(path)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
