"""A value net over positions of self-play games, with a `gc.collect()` "to keep memory low".

The games are trees whose nodes know their parents. How often the collector is called is the dose. A perfect
diagnosis: pauses of the garbage collector, called by hand at the line marked below. Fix: without the call.
"""

import gc

import torch
from stopwatch import Meter
from torch import nn


class Node:
    def __init__(self, parent, move):
        self.parent, self.move, self.children, self.visits = parent, move, [], 0


def grow(plies):
    root = node = Node(None, -1)
    for move in range(plies):
        child = Node(node, move)
        node.children.append(child)
        node = child
    return root


class GameStore:
    """The trees of the last games; the oldest is dropped."""

    def __init__(self, games, plies):
        self.plies, self.games = plies, [grow(plies) for _ in range(games)]

    def play(self, step):
        self.games[step % len(self.games)] = grow(self.plies)


class ValueNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.inp = nn.Linear(361, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return torch.tanh(self.out(x))


def main():
    meter = Meter(__doc__)
    net = ValueNet(*meter.pick((4096, 6), (64, 2))).to(meter.device)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    positions = torch.randint(-1, 2, (meter.pick(8192, 64), 361), device=meter.device).float()
    outcome = torch.randint(0, 2, (len(positions), 1), device=meter.device) * 2.0 - 1
    store = GameStore(games=500, plies=60)

    def step():
        with meter.autocast():
            value = net(positions)
        loss = (value.float() - outcome).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    meter.calibrate(step)
    pause_s = meter.timed_s(gc.collect)
    collect_every = max(1, round(pause_s / meter.host_s)) if meter.sick else 0
    while meter.going_on():
        store.play(meter.ticks)
        step()
        if collect_every and meter.ticks % collect_every == 0:
            gc.collect()  # planted
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
