"""A neural cellular automaton that heals: the place of the wound is given to a compiled step as four numbers.

How many steps a wound lasts is the dose. For each new one the compiler meets numbers that it took for
constants; the back end is `aot_eager`, which needs no compiler, and limits on recompiling are lifted. A
perfect diagnosis: torch compiles again and again, at the call marked below. Fix: the wound is a tensor.
"""

import random

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CHANNELS, SIDE, STEPS = 8, 24, 2


class Automaton(nn.Module):
    """Cells look at their neighbours and change."""

    def __init__(self):
        super().__init__()
        self.look = nn.Conv2d(CHANNELS, 24, 3, padding=1)
        self.change = nn.Conv2d(24, CHANNELS, 1)

    def forward(self, cells):
        for _ in range(STEPS):
            cells = cells + 0.1 * self.change(F.relu(self.look(cells)))
        return cells


class Box:
    """A wound by its edges."""

    def __init__(self, device):
        self.random, self.edges = random.Random(1), (2, 8, 2, 8)

    def move(self):
        top, left = self.random.randrange(SIDE - 4), self.random.randrange(SIDE - 4)
        self.edges = (top, top + self.random.randint(2, 12), left, left + self.random.randint(2, 12))

    @staticmethod
    def hurt(cells, edges):
        top, bottom, left, right = edges
        hole = F.pad(torch.zeros_like(cells[:, :, top:bottom, left:right]), _around(edges), value=1.0)
        return cells * hole


def _around(edges):
    top, bottom, left, right = edges
    return (left, max(0, SIDE - right), top, max(0, SIDE - bottom))


class Mask(Box):
    """The same as a tensor of ones and zeros."""

    def __init__(self, device):
        super().__init__(device)
        self.device = device
        self.move()

    def move(self):
        super().move()
        top, bottom, left, right = self.edges
        places = torch.arange(SIDE, device=self.device)
        inside = ((places >= top) & (places < bottom))[:, None] & (places >= left) & (places < right)
        self.edges_tensor = (~inside).float()

    @staticmethod
    def hurt(cells, mask):
        return cells * mask


class Healing:
    def __init__(self, meter):
        self.meter, (self.rows, width, depth) = meter, meter.pick((8192, 4096, 5), (64, 256, 5))
        self.wound = (Box if meter.sick else Mask)(meter.device)
        self.automaton = Automaton().to(meter.device)
        size = CHANNELS * SIDE
        layers = [nn.Linear(size, width), nn.SiLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.SiLU()]
        self.judge = nn.Sequential(*layers, nn.Linear(width, 1)).to(meter.device)
        weights = [*self.automaton.parameters(), *self.judge.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.pool = torch.rand(4, CHANNELS, SIDE, SIDE, device=meter.device)
        hurt, automaton = self.wound.hurt, self.automaton
        self.grow = torch.compile(
            lambda cells, where: automaton(hurt(cells, where)), backend="aot_eager", dynamic=False
        )

    def step(self):
        where = self.wound.edges if self.meter.sick else self.wound.edges_tensor
        healed = self.grow(self.pool, where)  # planted
        rows = healed.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)
        rows = rows.repeat(-(-self.rows // len(rows)), 1)[: self.rows]
        with self.meter.autocast():
            score = self.judge(rows)
        loss = F.softplus(-score.float()).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def heal(self, steps):
        while True:
            self.wound.move()
            for _ in range(steps):
                if not self.meter.going_on():
                    return
                self.step()
                self.meter.ticked()


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def main():
    meter = Meter(__doc__)
    lift_limits()
    healing = Healing(meter)
    meter.calibrate(healing.step)
    steps = 50
    if meter.sick:
        again_s = meter.timed_s(lambda: (healing.wound.move(), healing.step()), calls=6) - meter.healthy_s
        steps = max(1, round(again_s / meter.added_s))
    healing.heal(steps)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
