"""Self-play of gomoku: many games at once, each of which thinks about its next move for itself.

How many games there are is the dose. A perfect diagnosis: an inference of one board for each game (marked
below), where one batch would do. Fix: all boards are judged together.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE = 9
FREE = SIDE * SIDE


class Game:
    """A board from the view of who moves; it begins anew when full or when somebody gets lucky."""

    def __init__(self):
        self.board, self.moves = np.zeros(FREE, np.float32), 0

    def play(self, place):
        if self.board[place] == 0:
            self.board[place] = 1.0
            self.moves += 1
        self.board = -self.board
        if self.moves > FREE // 2:
            self.board, self.moves = np.zeros(FREE, np.float32), 0


class Judge(nn.Module):
    """The small net that plays."""

    def __init__(self, width):
        super().__init__()
        self.hidden, self.place = nn.Linear(FREE, width), nn.Linear(width, FREE)

    def forward(self, boards):
        return self.place(F.relu(self.hidden(boards)))


class Sage(nn.Module):
    """The large one, which learns from the games and teaches the small one."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(FREE, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, FREE)

    def forward(self, boards):
        h = self.enter(boards)
        for layer in self.body:
            h = h + F.mish(layer(h))
        return self.leave(h).float()


class Arena:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.judge = Judge(meter.pick(512, 64)).to(meter.device)
        self.sage = Sage(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.judge.parameters(), *self.sage.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.seen = torch.zeros(self.rows, FREE, device=meter.device)
        self.at = 0

    @torch.inference_mode()
    def think(self, boards):
        scores = self.judge(torch.from_numpy(boards).to(self.meter.device))
        return (scores + torch.rand_like(scores)).argmax(1).tolist()

    def move_alone(self, games):
        for game in games:
            (place,) = self.think(game.board[None])  # planted
            game.play(place)

    def move_together(self, games):
        places = self.think(np.stack([game.board for game in games]))
        for game, place in zip(games, places, strict=True):
            game.play(place)

    def keep(self, games):
        boards = np.stack([game.board for game in games[: self.rows - self.at]])
        self.seen[self.at : self.at + len(boards)] = torch.from_numpy(boards).to(self.meter.device)
        self.at = (self.at + len(boards)) % self.rows

    def learn(self):
        with self.meter.autocast():
            taught, played = self.sage(self.seen), self.judge(self.seen).float()
        target = (taught.detach() - 9 * self.seen.abs()).softmax(1)
        loss = F.cross_entropy(played, target) + F.mse_loss(taught, -self.seen)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    arena, games = Arena(meter), [Game() for _ in range(4)]

    def together():
        arena.move_together(games)
        arena.keep(games)
        arena.learn()

    meter.calibrate(together)
    four_s = meter.timed_s(lambda: arena.move_alone(games), calls=60)
    games += [Game() for _ in range(round(4 * meter.added_s / four_s) - 4)]
    move = arena.move_alone if meter.sick else arena.move_together
    while meter.going_on():
        with meter.injecting():
            move(games)
        arena.keep(games)
        arena.learn()
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
