"""A net that obeys an equation of heat at points drawn at random; its error on a fine grid is looked at.

A nested function goes over the grid, with the residual of the equation and a known solution. After how
many steps it is called is the dose. A perfect diagnosis: evaluation takes too large a part of the time
(any line marked below). Fix: every few thousand.
"""

import argparse
import math

import torch
from stopwatch import Meter
from torch import nn


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--inside", type=int, default=448)
    parser.add_argument("--edge", type=int, default=48)
    parser.add_argument("--grid", type=int, default=48)
    parser.add_argument("--validate-every", type=int, default=4000)
    return parser.parse_args([])


class Temperature(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(2, width), nn.Linear(width, 1)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 1))

    def forward(self, x, t):
        h = torch.tanh(self.enter(torch.cat([x, t], 1)))
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.leave(h)


def slope(u, of):
    return torch.autograd.grad(u.sum(), of, create_graph=True)[0]


def residual(net, x, t):
    x, t = x.requires_grad_(), t.requires_grad_()
    u = net(x, t)
    return slope(u, t) - slope(slope(u, x), x) / math.pi**2


def known(x, t):
    return torch.exp(-t) * torch.sin(math.pi * x)


def train(meter, args):
    net = Temperature(args.width, args.depth).to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)
    history, best = [], {"error": float("inf"), "tick": 0}

    def drawn(count):
        return torch.rand(2, count, 1, device=meter.device).unbind(0)

    def fit():
        inside = residual(net, *drawn(args.inside)).square().mean()
        x, t = drawn(args.edge)
        side = (x < 0.5).float()
        edges = net(side, t).square().mean()
        begin = (net(x, torch.zeros_like(t)) - known(x, torch.zeros_like(t))).square().mean()
        optimizer.zero_grad()
        (inside + 5 * edges + 5 * begin).backward()
        optimizer.step()
        decay.step()

    def validate():
        line = torch.linspace(0, 1, args.grid, device=meter.device)
        missed = []
        for now in line.split(8):
            x, t = (part.reshape(-1, 1) for part in torch.meshgrid(line, now, indexing="ij"))
            off = residual(net, x.clone(), t.clone()).detach().abs()  # planted
            with torch.no_grad():
                missed.append(torch.stack([off.mean(), (net(x, t) - known(x, t)).abs().mean()]))
        off, error = torch.stack(missed).mean(0).tolist()
        history.append({"tick": meter.ticks, "residual": off, "error": error})
        if error < best["error"]:
            best.update(error=error, tick=meter.ticks)

    meter.calibrate(fit)
    if meter.sick:
        args.validate_every = max(1, round(meter.timed_s(validate, calls=5) / meter.added_s))
    while meter.going_on():
        fit()
        meter.ticked()
        if meter.ticks % args.validate_every == 0:
            with meter.injecting():
                validate()  # planted
    meter.report()


if __name__ == "__main__":
    train(Meter(__doc__), options())
