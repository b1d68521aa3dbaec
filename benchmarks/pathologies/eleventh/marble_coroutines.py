"""Marbles in tilting labyrinths, learned by PPO; each labyrinth is a generator, to which moves are sent.

How many small steps of the marble one move has is the dose. A perfect diagnosis: the environments are
stepped one after another on the training thread while the GPU waits (the line marked below). Fix: all
marbles together, by NumPy.
"""

import math
import random

import numpy as np
import torch
from stopwatch import Meter
from torch import nn

SEEN, TILTS, WALL = 6, 2, 0.25


def labyrinth(seed, substeps):
    """Yields what is seen and the reward; is sent two tilts."""
    rng = random.Random(seed)
    x, y, vx, vy = rng.random(), rng.random(), 0.0, 0.0
    while True:
        tilts = yield (x, y, vx, vy, x % WALL, y % WALL), -math.hypot(x - 0.5, y - 0.5)
        for _ in range(substeps):
            vx, vy = 0.98 * vx + 0.001 * tilts[0], 0.98 * vy + 0.001 * tilts[1]
            if int((x + vx) / WALL) != int(x / WALL) and (y % WALL) > 0.05:
                vx = -0.5 * vx
            if int((y + vy) / WALL) != int(y / WALL) and (x % WALL) > 0.05:
                vy = -0.5 * vy
            x, y = min(1.0, max(0.0, x + vx)), min(1.0, max(0.0, y + vy))


class Hall:
    def __init__(self, count, substeps):
        self.boards = [labyrinth(n, substeps) for n in range(count)]
        self.seen = np.array([next(board)[0] for board in self.boards], np.float32)

    def step(self, tilts):
        told = [board.send(tilt) for board, tilt in zip(self.boards, tilts.tolist(), strict=True)]  # planted
        self.seen = np.array([seen for seen, _ in told], np.float32)
        return self.seen, np.array([reward for _, reward in told], np.float32)


class HallOfArrays:
    def __init__(self, count, substeps):
        self.substeps = substeps
        self.place, self.speed = np.random.default_rng(0).random((count, 2)), np.zeros((count, 2))
        self.seen = self.look()

    def look(self):
        return np.concatenate([self.place, self.speed, self.place % WALL], 1).astype(np.float32)

    def step(self, tilts):
        for _ in range(self.substeps):
            self.speed = 0.98 * self.speed + 0.001 * tilts
            through = (self.place + self.speed) // WALL != self.place // WALL
            gate = (self.place % WALL)[:, ::-1] <= 0.05
            self.speed = np.where(through & ~gate, -0.5 * self.speed, self.speed)
            self.place = (self.place + self.speed).clip(0.0, 1.0)
        self.seen = self.look()
        return self.seen, -np.hypot(*(self.place - 0.5).T).astype(np.float32)


class Hands(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, TILTS + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = torch.tanh(self.enter(seen))
        for layer in self.body:
            h = h + torch.tanh(layer(h))
        return self.leave(h).float().split((TILTS, 1), 1)


class Ppo:
    def __init__(self, meter, boards):
        self.meter, self.boards, self.rows = meter, boards, meter.pick(8192, 160)
        self.hands = Hands(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.hands.parameters(), 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN + TILTS + 1, device=meter.device)

    @torch.no_grad()
    def act(self, seen):
        with self.meter.autocast():
            mean, _ = self.hands(torch.from_numpy(seen).to(self.meter.device))
        return (mean + 0.2 * torch.randn_like(mean)).clamp(-1, 1).cpu().numpy()

    def learn(self, seen, tilts, rewards):
        new = torch.from_numpy(np.concatenate([seen, tilts, rewards[:, None]], 1).astype(np.float32))
        self.past = torch.cat([self.past[self.boards :], new.to(self.meter.device)])
        seen, tilts, rewards = self.past.split((SEEN, TILTS, 1), 1)
        with self.meter.autocast():
            mean, value = self.hands(seen)
        gain = rewards - value
        likely = -(tilts - mean).square().sum(1, keepdim=True)
        loss = gain.square().mean() - (likely * gain.detach()).clamp(-2, 2).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def substeps_taking(meter, boards, wanted_s):
    still, times = np.zeros((boards, TILTS), np.float32), []
    for substeps in (1, 31):
        hall = Hall(boards, substeps)
        times.append(meter.timed_s(lambda h=hall: h.step(still), calls=20))
    return max(1, round(1 + (wanted_s - times[0]) * 30 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    boards = meter.pick(96, 16)
    ppo = Ppo(meter, boards)

    def tick(hall):
        seen = hall.seen
        tilts = ppo.act(seen)
        with meter.injecting():
            _, rewards = hall.step(tilts)
        ppo.learn(seen, tilts, rewards)

    arrays = HallOfArrays(boards, 1)
    meter.calibrate(lambda: tick(arrays))
    substeps = substeps_taking(meter, boards, meter.added_s) if meter.dose else 1
    hall = (Hall if meter.sick else HallOfArrays)(boards, substeps)
    meter.injected_s = 0.0
    while meter.going_on():
        tick(hall)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
