"""Robots of a warehouse, as a parallel environment of agents: actions go in and readings come out by name.

Each robot's lidar is marched along its rays in small steps, by plain Python. How small is the dose. A
perfect diagnosis: an environment stepped by the training thread (any line marked below). Fix: arrays of
all robots and rays, in steps of one cell.
"""

import math
import random
from typing import NamedTuple

import numpy as np
import torch
from stopwatch import Meter, amount_taking
from torch import nn

ROBOTS, RAYS, HALL, REACH, HORIZON, EPOCHS = 8, 6, 24, 6, 12, 3
SEEN = RAYS + 4


class Heard(NamedTuple):
    observations: dict
    rewards: dict


class Robot:
    def __init__(self, rng):
        self.x, self.y, self.heading = rng.uniform(1, HALL - 1), rng.uniform(1, HALL - 1), 0.0
        self.goal = rng.uniform(1, HALL - 1), rng.uniform(1, HALL - 1)

    def move(self, speed, turn):
        self.heading = (self.heading + 0.3 * turn) % (2 * math.pi)
        self.x = min(HALL - 1.0, max(1.0, self.x + 0.3 * speed * math.cos(self.heading)))
        self.y = min(HALL - 1.0, max(1.0, self.y + 0.3 * speed * math.sin(self.heading)))

    def away(self):
        return math.dist((self.x, self.y), self.goal)


class WarehouseParallelEnv:
    def __init__(self, parts):
        self.parts, self.rng = parts, random.Random(0)
        self.shelves = {(row, column) for row in range(3, HALL, 6) for column in range(2, HALL, 2)}
        self.agents = [f"robot_{number}" for number in range(ROBOTS)]

    def reset(self):
        self.robots = {name: Robot(self.rng) for name in self.agents}
        return {name: self.observe(name) for name in self.agents}

    def occupied(self, x, y):
        return (int(x), int(y)) in self.shelves or not (0 < x < HALL and 0 < y < HALL)  # planted

    def march(self, robot, angle):
        """How far a ray gets; shelves are half transparent, so that it goes on."""
        dx, dy, seen = math.cos(angle) / self.parts, math.sin(angle) / self.parts, 0.0
        x, y = robot.x, robot.y
        for _ in range(REACH * self.parts):
            x, y = x + dx, y + dy
            if not self.occupied(x, y):  # planted
                seen += 1
        return seen / (REACH * self.parts)

    def lidar(self, robot):
        return [self.march(robot, robot.heading + 2 * math.pi * ray / RAYS) for ray in range(RAYS)]

    def observe(self, name):
        robot = self.robots[name]
        to_goal = [(robot.goal[0] - robot.x) / HALL, (robot.goal[1] - robot.y) / HALL]
        return np.array([*self.lidar(robot), *to_goal, math.cos(robot.heading), math.sin(robot.heading)])

    def step(self, actions):
        rewards = {}
        for name, (speed, turn) in actions.items():
            before = self.robots[name].away()
            self.robots[name].move(speed, turn)
            rewards[name] = before - self.robots[name].away()
        return Heard({name: self.observe(name) for name in self.agents}, rewards)  # planted


class ArrayWarehouse:
    def __init__(self):
        rng = np.random.default_rng(0)
        self.agents = [f"robot_{number}" for number in range(ROBOTS)]
        self.place, self.goal = rng.uniform(1, HALL - 1, (2, ROBOTS, 2))
        self.heading = np.zeros(ROBOTS)
        self.full = np.zeros((HALL, HALL), bool)
        self.full[3:HALL:6, 2:HALL:2] = True

    def reset(self):
        return self.observe()

    def observe(self):
        angles = self.heading[:, None] + 2 * np.pi * np.arange(RAYS) / RAYS
        way = np.stack([np.cos(angles), np.sin(angles)], 2)
        points = self.place[:, None, None] + way[:, :, None] * np.arange(1, REACH + 1)[:, None]
        inside = ((points > 0) & (points < HALL)).all(3)
        cells = points.clip(0, HALL - 1).astype(int)
        seen = (inside & ~self.full[cells[..., 0], cells[..., 1]]).mean(2)
        rows = np.hstack([seen, (self.goal - self.place) / HALL, way[:, 0]])
        return dict(zip(self.agents, rows, strict=True))

    def step(self, actions):
        speed, turn = np.array([actions[name] for name in self.agents]).T
        before = np.linalg.norm(self.goal - self.place, axis=1)
        self.heading = (self.heading + 0.3 * turn) % (2 * np.pi)
        way = np.stack([np.cos(self.heading), np.sin(self.heading)], 1)
        self.place = (self.place + 0.3 * speed[:, None] * way).clip(1, HALL - 1)
        gained = before - np.linalg.norm(self.goal - self.place, axis=1)
        return Heard(self.observe(), dict(zip(self.agents, gained.tolist(), strict=True)))


class SharedActorCritic(nn.Module):
    def __init__(self, size=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SEEN, size), nn.Tanh(), nn.Linear(size, size), nn.Tanh())
        self.mean, self.value = nn.Linear(size, 2), nn.Linear(size, 1)
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, seen):
        h = self.body(seen)
        return torch.distributions.Normal(self.mean(h), self.log_std.exp()), self.value(h)[:, 0]


class IPPO:
    def __init__(self, meter):
        self.meter, self.net = meter, SharedActorCritic().to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=5e-4)

    def tensor(self, told, agents):
        return torch.tensor(np.stack([told[name] for name in agents]), dtype=torch.float32).to(
            self.meter.device
        )

    @torch.no_grad()
    def collect(self, env, heard):
        rows = []
        for _ in range(HORIZON):
            seen = self.tensor(heard, env.agents)
            chances, value = self.net(seen)
            chosen = chances.sample()
            actions = dict(zip(env.agents, chosen.clamp(-1, 1).tolist(), strict=True))
            with self.meter.injecting():
                heard, rewards = env.step(actions)  # planted
            reward = self.tensor(rewards, env.agents)
            rows.append((seen, chosen, chances.log_prob(chosen).sum(1), value, reward))
        return heard, [torch.stack(part) for part in zip(*rows, strict=True)]

    def iterate(self, env, heard):
        heard, (seen, chosen, log_p, value, reward) = self.collect(env, heard)
        returns = reward.flip(0).cumsum(0).flip(0).flatten()
        gain = returns - value.flatten()
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        for _ in range(EPOCHS):
            chances, value = self.net(seen.flatten(0, 1))
            ratio = (chances.log_prob(chosen.flatten(0, 1)).sum(1) - log_p.flatten()).exp()
            surrogate = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = (value - returns).square().mean() - surrogate
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return heard


def main():
    meter, env = Meter(__doc__), ArrayWarehouse()
    learner, heard = IPPO(meter), env.reset()
    meter.calibrate(lambda: learner.iterate(env, heard))
    if meter.dose:
        actions = dict.fromkeys(env.agents, (0.5, 0.1))

        def stepping(parts):
            tried = WarehouseParallelEnv(parts)
            tried.reset()
            return lambda: tried.step(actions)

        parts = amount_taking(meter, stepping, 1, 11, meter.added_s / HORIZON)
        if meter.sick:
            env = WarehouseParallelEnv(parts)
            heard = env.reset()
    meter.injected_s = 0.0
    while meter.going_on():
        heard = learner.iterate(env, heard)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
