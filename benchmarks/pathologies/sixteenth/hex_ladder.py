"""A game of Hex: policy and value of positions are learnt from self-play; a thread keeps a ladder of players.

The thread lets old players play each other, move by move in plain Python, and rates them. For how much of
the time it does is the dose. A perfect diagnosis: another Python thread holds the interpreter (any line
marked below). Fix: a process of its own.
"""

import multiprocessing
import random
import threading
import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE, BATCH, PLAYERS, PERIOD_S = 6, 24, 8, 0.25
AROUND = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, -1), (-1, 1))


class Groups:
    """Which stones hang together; four more cells are the edges."""

    def __init__(self):
        self.parent = list(range(SIDE * SIDE + 4))

    def root(self, cell):
        while self.parent[cell] != cell:
            self.parent[cell] = self.parent[self.parent[cell]]  # planted
            cell = self.parent[cell]
        return cell

    def join(self, one, other):
        self.parent[self.root(one)] = self.root(other)


def neighbours(cell):
    y, x = divmod(cell, SIDE)
    for dy, dx in AROUND:
        if 0 <= y + dy < SIDE and 0 <= x + dx < SIDE:  # planted
            yield (y + dy) * SIDE + x + dx


def place(board, groups, cell, colour):
    board[cell] = colour
    line = cell // SIDE if colour == 1 else cell % SIDE
    if line in (0, SIDE - 1):
        groups.join(cell, SIDE * SIDE + 2 * (colour - 1) + (line > 0))
    for other in neighbours(cell):
        if board.get(other) == colour:  # planted
            groups.join(cell, other)
    edge = SIDE * SIDE + 2 * (colour - 1)
    return groups.root(edge) == groups.root(edge + 1)


def play(tastes, rng):
    """Who wins, if both take the cell they like best of a few."""
    board, groups, free = {}, Groups(), list(range(SIDE * SIDE))
    rng.shuffle(free)
    for turn in range(SIDE * SIDE):
        colour = turn % 2 + 1
        cell = max(free[-4:], key=lambda cell: tastes[colour - 1].get(cell, 0.0))
        free.remove(cell)
        if place(board, groups, cell, colour):  # planted
            return colour
    return 0


class Ladder:
    def __init__(self, busy_s):
        self.busy_s, self.rng, self.ratings = busy_s, random.Random(0), [1000.0] * PLAYERS
        self.tastes = [{cell: self.rng.random() for cell in range(SIDE * SIDE)} for _ in range(PLAYERS)]

    def match(self):
        one, other = self.rng.sample(range(PLAYERS), 2)
        won = play((self.tastes[one], self.tastes[other]), self.rng) == 1  # planted
        expected = 1 / (1 + 10 ** ((self.ratings[other] - self.ratings[one]) / 400))
        self.ratings[one] += 16 * (won - expected)
        self.ratings[other] -= 16 * (won - expected)

    def keep(self, over):
        while not over.is_set():
            begin_s = time.perf_counter()
            while time.perf_counter() - begin_s < self.busy_s:
                self.match()
            over.wait(max(0.005, PERIOD_S - (time.perf_counter() - begin_s)))


class HexNet(nn.Module):
    def __init__(self, width=56, blocks=3):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(blocks))
        self.policy, self.value = nn.Conv2d(width, 1, 1), nn.Linear(width, 1)

    def forward(self, boards):
        h = F.relu(self.enter(boards))
        for block in self.blocks:
            h = h + F.relu(block(h))
        return self.policy(h).flatten(1), self.value(h.mean((2, 3))).tanh()[:, 0]


def main():
    meter = Meter(__doc__)
    net = HexNet().to(meter.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    boards = (torch.rand(16, BATCH, 3, SIDE, SIDE, device=meter.device) < 0.3).float()
    visits = torch.rand(16, BATCH, SIDE * SIDE, device=meter.device).softmax(2)
    winner = torch.rand(16, BATCH, device=meter.device).sign()

    def learn():
        number = meter.ticks % 16
        logits, value = net(boards[number])
        loss = F.cross_entropy(logits, visits[number]) + F.mse_loss(value, winner[number])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(learn)
    ladder = Ladder(PERIOD_S * meter.share / (1 + meter.share))
    if meter.sick:
        over = threading.Event()
        helper = threading.Thread(target=ladder.keep, args=(over,), name="ladder", daemon=True)
    else:
        context = multiprocessing.get_context("fork")
        over = context.Event()
        helper = context.Process(target=ladder.keep, args=(over,), daemon=True)
    helper.start()
    while meter.going_on():
        learn()
        meter.ticked()
    meter.report(excess=True)
    over.set()
    helper.join()


if __name__ == "__main__":
    main()
