"""Backgammon by temporal differences: a player looks at what each of its moves would lead to.

How many moves there are to look at is the dose. A perfect diagnosis: one inference for each position, each a
few small kernels and a wait (marked below). Fix: all positions in one batch.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

POINTS = 28


class Table:
    """Rules much simplified: a move takes from one point and puts on another."""

    def __init__(self, number, moves):
        self.rng, self.moves = np.random.default_rng(number), moves
        self.board = self.rng.random(POINTS, dtype=np.float32)

    def afterstates(self):
        after = np.repeat(self.board[None], self.moves, 0)
        row = np.arange(self.moves)
        after[row, row % POINTS] -= 0.1
        after[row, (row * 5 + 3) % POINTS] += 0.1
        return after

    def settle(self, board):
        self.board = board.clip(0.0, 1.0)


class Evaluator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(POINTS, width), nn.Sigmoid(), nn.Linear(width, 1))

    def forward(self, boards):
        return self.layers(boards)[:, 0]


class GreedyPlayer:
    def __init__(self, evaluator, device):
        self.evaluator, self.device = evaluator, device

    @torch.no_grad()
    def value(self, board):
        return self.evaluator(torch.as_tensor(board[None], device=self.device)).item()  # planted

    def choose(self, tables):
        for table in tables:
            table.settle(max(table.afterstates(), key=self.value))


class QuickPlayer(GreedyPlayer):
    @torch.no_grad()
    def choose(self, tables):
        after = np.stack([table.afterstates() for table in tables])
        values = self.evaluator(torch.from_numpy(after.reshape(-1, POINTS)).to(self.device))
        best = values.view(len(tables), -1).argmax(1).tolist()
        for table, boards, move in zip(tables, after, best, strict=True):
            table.settle(boards[move])


class Prophet(nn.Module):
    """How a game will go on; learned beside the evaluator."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(POINTS, width), nn.Linear(width, POINTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, boards):
        h = self.enter(boards)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h).float()


class TemporalDifference:
    def __init__(self, meter):
        self.meter, self.rows, self.at = meter, meter.pick(8192, 160), 0
        self.evaluator = Evaluator(meter.pick(512, 80)).to(meter.device)
        self.prophet = Prophet(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.evaluator.parameters(), *self.prophet.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.boards = torch.rand(self.rows, POINTS, device=meter.device)

    def learn(self, tables):
        new = torch.from_numpy(np.stack([table.board for table in tables]))[: self.rows - self.at]
        self.boards[self.at : self.at + len(new)] = new.to(self.meter.device)
        self.at = (self.at + len(new)) % self.rows
        after = self.boards.roll(-1, 0)
        with self.meter.autocast():
            ahead = self.prophet(self.boards)
            value, later = self.evaluator(self.boards).float(), self.evaluator(after).float()
        loss = F.mse_loss(ahead, after) + (value - 0.95 * later.detach()).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    game, tables = TemporalDifference(meter), [Table(n, 4) for n in range(2)]
    one_by_one, quick = (kind(game.evaluator, meter.device) for kind in (GreedyPlayer, QuickPlayer))

    def turn(player):
        with meter.injecting():
            player.choose(tables)
        game.learn(tables)

    meter.calibrate(lambda: turn(quick))
    if meter.dose:
        each_s = meter.timed_s(lambda: one_by_one.choose(tables), calls=60) / 8
        moves = max(4, round(meter.added_s / each_s / 2))
        tables = [Table(n, moves) for n in range(2)]
    player = one_by_one if meter.sick else quick
    meter.injected_s = 0.0
    while meter.going_on():
        turn(player)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
