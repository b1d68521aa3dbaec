"""Two faults: regattas are sailed in a process while the learner waits, and sailors are ranked in Python.

Each takes three quarters of a dose. A perfect diagnosis names both: rollout and update take turns (first
marked line), and a hot line of Python on the training thread (second). Fix: the next regatta is sailed
meanwhile, and ranks come from NumPy.
"""

import math
import multiprocessing

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

PART, SEEN, LEGS, LEARNT = 0.75, 4, 24, 224


def regatta(helm, length):
    """Wind that turns, a boat that follows; the first legs are told."""
    angle, speed, place, told = 0.3, 0.5, 0.0, []
    for second in range(length):
        wind = 0.7 * math.sin(0.02 * second) + 0.2 * math.sin(0.13 * second)
        angle += 0.05 * math.tanh(helm[0] * (wind - angle) + helm[1])
        speed += 0.1 * (max(0.0, math.cos(wind - angle)) - speed)
        place += 0.01 * speed
        if second < LEGS:
            told.append((angle, wind, speed, place, speed * math.cos(angle)))
    return np.array(told, np.float32)


def skipper(line):
    while (order := line.recv()) is not None:
        line.send(regatta(*order))


class Harbour:
    def __init__(self):
        context = multiprocessing.get_context("fork")
        self.line, other = context.Pipe()
        self.process = context.Process(target=skipper, args=(other,), daemon=True)
        self.process.start()
        self.length, self.away = LEGS, False

    def send_out(self, helm):
        self.line.send((helm, self.length))
        self.away = True

    def come_home(self):
        self.away = False
        return self.line.recv()  # planted

    def in_turn(self, helm):
        self.send_out(helm)
        return self.come_home()

    def meanwhile(self, helm):
        told = self.come_home() if self.away else self.in_turn(helm)
        self.send_out(helm)
        return told


def ranks_by_hand(results):
    """Each sailor's rank: the mean of ranks where several are equal."""
    ranks = []
    for mine in results:
        better = sum(1 for other in results if other > mine)  # planted
        equal = sum(1 for other in results if other == mine)
        ranks.append((better + 0.5 * (equal - 1)) / len(results))
    return ranks


def ranks_sorted(results):
    order = np.sort(np.asarray(results))
    left, right = np.searchsorted(order, results), np.searchsorted(order, results, "right")
    return ((len(order) - right) + 0.5 * (right - left - 1)) / len(order)


class Gated(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(2 * size, size)

    def forward(self, x):
        return x + self.narrow(F.glu(self.wide(x)))


class Sailor:
    def __init__(self, meter):
        self.device, size = meter.device, 240
        self.net = nn.Sequential(nn.Linear(SEEN, size), Gated(size), Gated(size), nn.Linear(size, 1))
        self.net.to(meter.device)
        self.helm = nn.Parameter(torch.tensor([0.5, 0.0], device=meter.device))
        groups = [{"params": self.net.parameters()}, {"params": [self.helm], "lr": 1e-4}]
        self.optimizer = torch.optim.RAdam(groups, lr=1e-3)
        self.log = torch.rand(LEARNT, SEEN + 1)

    def learn(self, told, ranks):
        self.log = torch.cat([self.log[len(told) :], torch.from_numpy(told)])
        seen, made = self.log.to(self.device).split((SEEN, 1), 1)
        worth = self.net(seen)
        wish = self.helm[0] * (seen[:, 1] - seen[:, 0]) + self.helm[1]
        weight = 1 - float(np.mean(ranks))
        loss = F.mse_loss(worth, made) + weight * (wish.tanh() * (made - worth.detach())[:, 0]).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    meter, harbour, sailors = Meter(__doc__), Harbour(), 16
    sailor, rng = Sailor(meter), np.random.default_rng(0)
    meter.calibrate(lambda: sailor.learn(np.zeros((LEGS, SEEN + 1), np.float32), [0.5]))
    part_s = PART * meter.added_s
    if meter.dose:

        def sailing(length):
            def work():
                harbour.length = length
                harbour.in_turn((0.5, 0.0))

            return work

        harbour.length = amount_taking(meter, sailing, LEGS, 4000, part_s)
        pairs = lambda count: lambda: ranks_by_hand([0.5] * round(count**0.5))  # noqa: E731
        sailors = round(amount_taking(meter, pairs, 16**2, 160**2, part_s) ** 0.5)
    results = rng.integers(0, 500, sailors).tolist()
    sail, rank = (harbour.in_turn, ranks_by_hand) if meter.sick else (harbour.meanwhile, ranks_sorted)
    while meter.going_on():
        with meter.injecting():
            told = sail(sailor.helm.tolist())
            results[meter.ticks % sailors] = float(told[:, 4].sum())
            ranks = rank(results)
        sailor.learn(told, ranks)
        meter.ticked()
    meter.report()
    harbour.process.terminate()


if __name__ == "__main__":
    main()
