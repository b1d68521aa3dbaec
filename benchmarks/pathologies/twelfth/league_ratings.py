"""Players of a board game learn from a store of games; beside them, a league rates all that ever played.

The ratings are found by a thread in plain Python, which goes through all results again and again. For how
much of the time it does is the dose. A perfect diagnosis: another Python thread holds the interpreter, and
the training thread cannot give orders to the GPU (any line marked below). Fix: a process of its own.
"""

import math
import multiprocessing
import random
import threading
import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

MOVES, PLAYERS, PERIOD_S, NOTED = 40, 60, 0.25, 5


class League:
    """Ratings, by all results of all players so far."""

    def __init__(self):
        rng = random.Random(0)
        self.results = [(*rng.sample(range(PLAYERS), 2), rng.random() < 0.5) for _ in range(3000)]
        self.ratings = [1500.0] * PLAYERS

    def rate(self, until_s):
        for number in range(10**9):
            one, two, won = self.results[number % len(self.results)]
            expected = 1 / (1 + math.pow(10, (self.ratings[two] - self.ratings[one]) / 400))  # planted
            change = 8 * (won - expected)  # planted
            self.ratings[one] += change  # planted
            self.ratings[two] -= change  # planted
            if number % 50 == 0 and time.perf_counter() >= until_s:
                return


def keep_rating(over, busy_s):
    """New results come in once in a period."""
    league = League()
    while not over.is_set():
        begin_s = time.perf_counter()
        league.rate(begin_s + busy_s)
        over.wait(max(0.01, PERIOD_S - (time.perf_counter() - begin_s)))


def start_beside(busy_s, as_process):
    context = multiprocessing.get_context("fork")
    over = context.Event() if as_process else threading.Event()
    kind = context.Process if as_process else threading.Thread
    runner = kind(target=keep_rating, args=(over, busy_s), daemon=True)
    runner.start()
    return runner, over


class TwoHeads(nn.Module):
    """What to play and who will win, after convolutions over the board."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.move, self.winner = nn.Linear(width, MOVES), nn.Linear(width, 1)

    def forward(self, boards):
        h = self.enter(boards)
        for conv in self.body:
            h = h + F.relu(conv(h))
        h = h.mean((2, 3))
        return self.move(h).float(), self.winner(h).float()[:, 0]


def main():
    meter = Meter(__doc__)
    games, side = meter.pick((512, 12), (16, 6))
    net = TwoHeads(*meter.pick((384, 7), (40, 4))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    boards = torch.rand(games, 4, side, side, device=meter.device)
    boards = boards.contiguous(memory_format=torch.channels_last)
    moves = torch.randint(MOVES, (games,), device=meter.device)
    won, noted = torch.rand(games, device=meter.device).round(), []

    def step():
        with meter.autocast():
            move, winner = net(boards)
        loss = F.cross_entropy(move, moves) + F.binary_cross_entropy_with_logits(winner, won)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    meter.calibrate(step)
    # A GPU has work for some steps when its orders stop.
    busy_s = PERIOD_S * meter.share / (1 + meter.share) + meter.pick(0.025, 0.0) * bool(meter.dose)
    runner, over = start_beside(busy_s, as_process=not meter.sick)
    while meter.going_on():
        loss = step()
        meter.ticked()
        if meter.ticks % NOTED == 0:
            noted.append(loss.item())
    meter.report(excess=True)
    over.set()
    runner.join()


if __name__ == "__main__":
    main()
