"""Two faults: mazes under gymnasium's wrappers are walked one after another, and garbage is collected.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped on the training
thread (first marked line), and the garbage collector's pauses (second). Fix: two mazes are enough, and nobody
collects by hand.
"""

import gc

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SIDE, MOVES = 0.75, 9, 4
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))


class Maze(gym.Env):
    observation_space = gym.spaces.Box(0.0, SIDE, (4,), np.float32)
    action_space = gym.spaces.Discrete(MOVES)

    def __init__(self, look):
        self.look, self.place = look, (1, 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.walls = self.np_random.random((SIDE, SIDE)) < 0.3
        self.place = (1, 1)
        return self._seen(), {}

    def _free(self, down, right):
        """How far one can walk in a straight line."""
        row, column, far = *self.place, 0
        while far < self.look and not self.walls[(row + down) % SIDE, (column + right) % SIDE]:
            row, column, far = row + down, column + right, far + 1
        return min(far, SIDE)

    def _seen(self):
        return np.array([self._free(*step) for step in STEPS], np.float32)

    def step(self, move):
        down, right = STEPS[move]
        place = ((self.place[0] + down) % SIDE, (self.place[1] + right) % SIDE)
        if not self.walls[place]:
            self.place = place
        return self._seen(), float(place == (7, 7)), place == (7, 7), False, {}


class Curious(gym.Wrapper):
    """A little more for a place that has not been seen."""

    def step(self, move):
        seen, reward, *rest = self.env.step(move)
        return seen, reward + 0.01 * float(seen.sum() > 8), *rest


class Story:
    """What happened in an episode; stories know the one before and after."""

    def __init__(self, before):
        self.before, self.after, self.moves = before, None, []
        if before is not None:
            before.after = self


def stories(count):
    last = None
    for _ in range(count):
        last = Story(last)
    return last


class Agent:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        width, depth = meter.pick((4096, 5), (256, 4))
        with meter.device:
            layers = [nn.Linear(4, width), nn.SiLU()]
            for _ in range(depth):
                layers += [nn.Linear(width, width), nn.SiLU()]
            self.net = nn.Sequential(*layers, nn.Linear(width, MOVES))
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.rand(self.rows, 4, device=meter.device)
        self.rewards = torch.zeros(self.rows, device=meter.device)
        self.at, self.rng = 0, np.random.default_rng(0)

    def store(self, seen, rewards):
        seen, rewards = seen[: self.rows // 4], rewards[: self.rows // 4]
        count = len(rewards)
        self.at = self.at if self.at + count <= self.rows else 0
        new = torch.from_numpy(np.stack(seen)), torch.tensor(rewards)
        new = [part.pin_memory() for part in new] if self.meter.gpu else new
        for kept, part in zip((self.seen, self.rewards), new, strict=True):
            kept[self.at : self.at + count].copy_(part, non_blocking=True)
        self.at += count

    def learn(self):
        with self.meter.autocast():
            value = self.net(self.seen)
        loss = F.mse_loss(value.float().mean(1), self.rewards)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Corridors:
    """Several mazes, behind the face of one environment."""

    def __init__(self, count, look):
        self.envs = [Curious(gym.wrappers.OrderEnforcing(Maze(look))) for _ in range(count)]
        for n, env in enumerate(self.envs):
            env.reset(seed=n)

    def step(self, moves):
        results = [env.step(int(move)) for env, move in zip(self.envs, moves, strict=True)]  # planted
        for env, result in zip(self.envs, results, strict=True):
            if result[2]:
                env.reset()
        return [result[0] for result in results], [result[1] for result in results]


class Tidy:
    def __init__(self, every):
        self.every = every

    def __call__(self, step):
        if step % self.every == 0:
            gc.collect()  # planted


def main():
    meter = Meter(__doc__)
    agent, corridors, kept = Agent(meter), Corridors(2, SIDE), stories(meter.pick(200_000, 50_000))

    def tick():
        with meter.injecting():
            seen, rewards = corridors.step(agent.rng.integers(MOVES, size=len(corridors.envs)))
        agent.store(seen, rewards)
        agent.learn()

    healthy_s = meter.calibrate(tick)
    tidy = Tidy(10_000_000)
    if meter.sick:
        part_s = PART * meter.added_s
        two_s = meter.timed_s(lambda: corridors.step([0, 2]), calls=60)
        wanted_s = part_s + meter.pick(healthy_s, 0.0)
        corridors = Corridors(max(2, round(2 * wanted_s / two_s)), SIDE)
        tidy.every = max(1, round(meter.timed_s(gc.collect) / part_s))
    meter.injected_s = 0.0
    while meter.going_on():
        tick()
        meter.ticked()
        with meter.injecting():
            tidy(meter.ticks)
    meter.report(excess=meter.gpu)
    del kept


if __name__ == "__main__":
    main()
