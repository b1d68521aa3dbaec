"""Traders learn in a market of their own making: every tick the orders of all of them are matched, in Python.

How many orders rest in the book is the dose. A perfect diagnosis: the environment is stepped on the training
thread while the GPU waits (the step marked below). Fix: all quotes sorted by NumPy at once.
"""

import bisect
import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TRADERS, SEEN, MOVES, LENGTH = 8, 6, 3, 300


class Market:
    """Bids and asks in order of price; traders lift, hit or wait."""

    def __init__(self, resting, seed=0):
        self.resting, self.random = resting, random.Random(seed)

    def reset(self):
        self.price, self.age = 100.0, 0
        self.cash, self.held = [0.0] * TRADERS, [0] * TRADERS
        self.bids, self.asks = [], []
        self._quote()
        return self._observations()

    def _quote(self):
        """Makers take back what rests and quote again around the price."""
        self.bids.clear()
        self.asks.clear()
        for n in range(self.resting):
            away = 0.01 * (1 + n % 50) + 0.01 * self.random.random()
            bisect.insort(self.bids, self.price - away)
            bisect.insort(self.asks, self.price + away)

    def step(self, moves):
        before = [c + h * self.price for c, h in zip(self.cash, self.held, strict=True)]
        for trader, move in enumerate(moves):
            if move == 1 and self.asks:
                self.cash[trader] -= self.asks.pop(0)
                self.held[trader] += 1
            elif move == 2 and self.bids:
                self.cash[trader] += self.bids.pop()
                self.held[trader] -= 1
        self.price += self.random.gauss(0.0, 0.05)
        self._quote()
        self.age += 1
        after = [c + h * self.price for c, h in zip(self.cash, self.held, strict=True)]
        rewards = [b - a for a, b in zip(before, after, strict=True)]
        return self._observations(), rewards, self.age >= LENGTH

    def _observations(self):
        best = (self.bids[-1] - self.price, self.asks[0] - self.price) if self.bids else (0.0, 0.0)
        return [[*best, h / 10, c / 1000, self.age / LENGTH, n / TRADERS]
                for n, (h, c) in enumerate(zip(self.held, self.cash, strict=True))]  # fmt: skip


class QuickMarket(Market):
    def _quote(self):
        steps = np.arange(self.resting) % 50
        away = 0.01 * (1 + steps) + 0.01 * np.random.default_rng(self.age).random(self.resting)
        away.sort()
        self.bids, self.asks = (self.price - away[::-1]).tolist(), (self.price + away).tolist()


class Traders(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(SEEN, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, MOVES + 1)

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        out = self.head(h).float()
        return out[..., :MOVES], out[..., MOVES]


class ActorCritic:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.net = Traders(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(rows, SEEN, device=meter.device)
        self.moves = torch.zeros(rows, dtype=torch.long, device=meter.device)
        self.rewards = torch.zeros(rows, device=meter.device)
        self.at = 0

    @torch.no_grad()
    def act(self, seen):
        with self.meter.autocast():
            logits, _ = self.net(torch.tensor(seen).to(self.meter.device))
        return torch.distributions.Categorical(logits=logits, validate_args=False).sample()

    def remember(self, seen, moves, rewards):
        rows = slice(self.at, self.at + TRADERS)
        self.seen[rows] = torch.tensor(seen).to(self.meter.device)
        self.moves[rows], self.rewards[rows] = moves, torch.tensor(rewards).to(self.meter.device)
        self.at = (self.at + TRADERS) % len(self.moves)

    def learn(self):
        with self.meter.autocast():
            logits, values = self.net(self.seen)
        gain = self.rewards - values
        likely = -F.cross_entropy(logits, self.moves, reduction="none")
        loss = gain.square().mean() - (likely * gain.detach()).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def resting_for(meter, wanted_s):
    resting = 200
    for _ in range(5):  # the cost does not grow in proportion
        market = Market(resting)
        market.reset()
        took_s = meter.timed_s(lambda m=market: m.step([0] * TRADERS), calls=12)
        resting = max(4, round(resting * min(3.0, wanted_s / took_s) ** 0.8))
    return resting


def main():
    meter = Meter(__doc__)
    agent, quiet = ActorCritic(meter), Market(4)
    seen = quiet.reset()
    meter.calibrate(lambda: (agent.remember(seen, agent.act(seen), [0.0] * TRADERS), agent.learn()))
    resting = resting_for(meter, meter.added_s) if meter.dose else 4
    market = (Market if meter.sick else QuickMarket)(resting)
    seen = market.reset()
    while meter.going_on():
        moves = agent.act(seen)
        with meter.injecting():
            after, rewards, over = market.step(moves.tolist())  # planted
        agent.remember(seen, moves, rewards)
        agent.learn()
        seen = market.reset() if over else after
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
