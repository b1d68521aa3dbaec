"""Advantage actor-critic in warehouses of its own making, which the training thread walks through one by one.

How many other pickers are about is the dose. A perfect diagnosis: the simulated warehouses are stepped
serially on the training thread (marked below), which takes turns with the GPU. Fix: processes that hold a
few warehouses each.
"""

import multiprocessing
import random

import numpy as np
import torch
from stopwatch import Meter
from torch import nn
from torch.distributions import Categorical

HOUSES, SIDE, VIEW, MOVES = 16, 24, 6, ((0, 1), (1, 0), (0, -1), (-1, 0))


class Warehouse:
    def __init__(self, seed, pickers):
        self.rng, self.pickers = random.Random(seed), pickers

    def reset(self):
        self.robot, self.shelf, self.age = (0, 0), self._somewhere(), 0
        self.others = [self._somewhere() for _ in range(self.pickers)]
        return self._view()

    def step(self, move):
        self.others = [self._walk(place) for place in self.others]
        before, self.age = self._distance(), self.age + 1
        self.robot = self._moved(self.robot, MOVES[move])
        reward, done = float(before - self._distance()), self.robot == self.shelf or self.age >= 100
        return (self.reset() if done else self._view()), reward, done

    def _somewhere(self):
        return self.rng.randrange(SIDE), self.rng.randrange(SIDE)

    def _moved(self, place, move):
        return min(max(place[0] + move[0], 0), SIDE - 1), min(max(place[1] + move[1], 0), SIDE - 1)

    def _walk(self, place):
        there = self._moved(place, MOVES[self.rng.randrange(4)])
        return place if there == self.robot else there

    def _distance(self):
        return abs(self.robot[0] - self.shelf[0]) + abs(self.robot[1] - self.shelf[1])

    def _view(self):
        near = sum(abs(x - self.robot[0]) + abs(y - self.robot[1]) < 4 for x, y in self.others)
        return np.array([*self.robot, *self.shelf, near, self.age], np.float32) / SIDE


def work(pipe, houses):
    views = [house.reset() for house in houses]
    while (moves := pipe.recv()) is not None:
        results = [house.step(move) for house, move in zip(houses, moves, strict=True)] if moves else []
        views = [view for view, _, _ in results] or views
        pipe.send((views, [reward for _, reward, _ in results]))


class OnThisThread:
    def __init__(self, houses):
        self.houses = houses

    def reset(self):
        return np.stack([house.reset() for house in self.houses])

    def step(self, moves):
        views, rewards = [], []
        for house, move in zip(self.houses, moves, strict=True):
            view, reward, _ = house.step(move)  # planted
            views.append(view)
            rewards.append(reward)
        return np.stack(views), rewards

    def close(self):
        pass


class InProcesses:
    def __init__(self, houses, processes):
        context = multiprocessing.get_context("fork")
        self.parts = [houses[n::processes] for n in range(processes)]
        self.pipes, theirs = zip(*(context.Pipe() for _ in self.parts), strict=True)
        for pipe, part in zip(theirs, self.parts, strict=True):
            context.Process(target=work, args=(pipe, part), daemon=True).start()

    def reset(self):
        return self.step([])[0]

    def step(self, moves):
        count = len(self.pipes)
        for n, pipe in enumerate(self.pipes):
            pipe.send(moves[n::count])
        views, rewards = np.zeros((HOUSES, VIEW), np.float32), [0.0] * HOUSES
        for n, pipe in enumerate(self.pipes):
            seen, won = pipe.recv()
            views[n::count] = seen
            if won:
                rewards[n::count] = won
        return views, rewards

    def close(self):
        for pipe in self.pipes:
            pipe.send(None)


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Linear(VIEW, width), nn.Tanh()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.trunk = nn.Sequential(*layers)
        self.move, self.value = nn.Linear(width, len(MOVES)), nn.Linear(width, 1)

    def forward(self, view):
        h = self.trunk(view)
        return self.move(h).float(), self.value(h).float()


class Agent:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 256)
        self.net = ActorCritic(*meter.pick((4096, 5), (192, 4))).to(meter.device)
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=1e-5, foreach=True)
        self.views = torch.randn(self.rows, VIEW, device=meter.device)
        self.moves = torch.randint(len(MOVES), (self.rows,), device=meter.device)
        self.rewards = torch.zeros(self.rows, 1, device=meter.device)
        self.place = 0

    @torch.no_grad()
    def act(self, views):
        with self.meter.autocast():
            logits, _ = self.net(torch.from_numpy(views).to(self.meter.device))
        return Categorical(logits=logits, validate_args=False).sample()

    def remember(self, views, moves, rewards):
        rows = slice(self.place, self.place + HOUSES)
        self.views[rows] = torch.from_numpy(views).to(self.meter.device)
        self.moves[rows], self.rewards[rows, 0] = moves, torch.tensor(rewards).to(self.meter.device)
        self.place = (self.place + HOUSES) % self.rows

    def update(self):
        with self.meter.autocast():
            logits, value = self.net(self.views)
        gain = self.rewards - value
        chosen = logits.log_softmax(-1).gather(1, self.moves[:, None])
        loss = -(chosen * gain.detach()).mean() + 0.5 * gain.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def picker_s(meter):
    house = Warehouse(0, 500)
    house.reset()
    return meter.timed_s(lambda: house.step(0), calls=10) / 500


def main():
    meter = Meter(__doc__)
    agent, still = Agent(meter), np.zeros((HOUSES, VIEW), np.float32)
    meter.calibrate(lambda: (agent.act(still).tolist(), agent.update()))
    pickers = round(meter.added_s / HOUSES / picker_s(meter)) if meter.dose else 2
    houses = [Warehouse(seed, pickers) for seed in range(HOUSES)]
    crowd = InProcesses(houses, meter.pick(8, 2)) if meter.fixed else OnThisThread(houses)
    views = crowd.reset()
    while meter.going_on():
        moves = agent.act(views)
        chosen = moves.tolist()
        with meter.injecting():
            nxt, rewards = crowd.step(chosen)
        agent.remember(views, moves, rewards)
        agent.update()
        views = nxt
        meter.ticked()
    meter.report()
    crowd.close()


if __name__ == "__main__":
    main()
