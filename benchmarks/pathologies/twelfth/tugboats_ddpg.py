"""Tugboats learn to pull, off-policy, by deterministic gradients; each boat is an environment in wrappers.

How finely a boat's motion is simulated is the dose. A perfect diagnosis: the environments are stepped by the
training thread, one after another, while the GPU waits (either line marked below). Fix: all boats at once, as
arrays.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, ROPES = 6, 2


@dataclass
class Tug:
    """A boat in a current, with inertia; a step is many small ones."""

    substeps: int
    x: float = 0.0
    y: float = 0.0
    course: float = 0.0
    speed: float = 0.0
    turn: float = 0.0

    def step(self, action):
        for _ in range(self.substeps):
            self.turn += 0.01 * (action[0] - self.turn)
            self.course += 0.01 * self.turn
            self.speed += 0.01 * (action[1] - 0.4 * self.speed * abs(self.speed))
            self.x += 0.01 * (self.speed * math.cos(self.course) + 0.1 * math.sin(self.y))
            self.y += 0.01 * self.speed * math.sin(self.course)
        return [self.x, self.y, math.cos(self.course), math.sin(self.course), self.speed, self.turn], -abs(
            self.x - 1
        )


class Wrapper:
    def __init__(self, env):
        self.env = env

    def step(self, action):
        return self.env.step(action)


class Clipped(Wrapper):
    def step(self, action):
        return self.env.step([min(1.0, max(-1.0, part)) for part in action])


class Scaled(Wrapper):
    def step(self, action):
        seen, reward = self.env.step(action)
        return [part / 3 for part in seen], 0.1 * reward


class Fleet:
    def __init__(self, boats, substeps):
        self.envs = [Scaled(Clipped(Tug(substeps, y=0.1 * n))) for n in range(boats)]

    def step(self, actions):
        told = []
        for env, action in zip(self.envs, actions.tolist(), strict=True):
            told.append(env.step(action))  # planted
        return np.array([[*seen, reward] for seen, reward in told], np.float32)


class FleetOfArrays:
    def __init__(self, boats, substeps):
        self.substeps, self.state = substeps, np.zeros((5, boats))
        self.state[1] = 0.1 * np.arange(boats)

    def step(self, actions):
        x, y, course, speed, turn = self.state
        steer, pull = np.clip(actions, -1, 1).T
        for _ in range(self.substeps):
            turn = turn + 0.01 * (steer - turn)
            course = course + 0.01 * turn
            speed = speed + 0.01 * (pull - 0.4 * speed * np.abs(speed))
            x = x + 0.01 * (speed * np.cos(course) + 0.1 * np.sin(y))
            y = y + 0.01 * speed * np.sin(course)
        self.state = np.stack([x, y, course, speed, turn])
        seen = np.stack([x, y, np.cos(course), np.sin(course), speed, turn], 1) / 3
        return np.column_stack([seen, -0.1 * np.abs(x - 1)]).astype(np.float32)


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.worth = nn.Linear(SEEN + ROPES, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen, action):
        h = self.enter(torch.cat([seen, action], 1))
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.worth(h).float()


class Ddpg:
    def __init__(self, meter):
        self.meter, self.boats, self.rows = meter, *meter.pick((384, 8192), (64, 128))
        self.actor = nn.Sequential(nn.Linear(SEEN, 64), nn.ReLU(), nn.Linear(64, ROPES), nn.Tanh())
        self.actor, self.critic = (
            self.actor.to(meter.device),
            Critic(*meter.pick((4096, 5), (256, 4))).to(meter.device),
        )
        weights = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.replay, self.at = torch.rand(self.rows, SEEN + ROPES + 1, device=meter.device), 0
        self.seen = np.zeros((self.boats, SEEN), np.float32)

    @torch.no_grad()
    def act(self):
        action = self.actor(torch.from_numpy(self.seen).to(self.meter.device))
        return (action + 0.2 * torch.randn_like(action)).cpu().numpy()

    def tick(self, fleet):
        actions = self.act()
        with self.meter.injecting():
            told = fleet.step(actions)  # planted
        self.learn(np.concatenate([self.seen, actions, told[:, SEEN:]], 1))
        self.seen = told[:, :SEEN].copy()

    def learn(self, new):
        new = torch.from_numpy(new)[: self.rows - self.at]
        self.replay[self.at : self.at + len(new)] = new.to(self.meter.device)
        self.at = (self.at + len(new)) % self.rows
        seen, action, reward = self.replay.split((SEEN, ROPES, 1), 1)
        with self.meter.autocast():
            worth, wish = self.critic(seen, action), self.actor(seen[:256]).float().square().mean()
        loss = F.mse_loss(worth, reward) + 0.01 * wish
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def substeps_taking(meter, boats, wanted_s):
    still, times = np.zeros((boats, ROPES)), []
    for substeps in (1, 21):
        fleet = Fleet(boats, substeps)
        times.append(meter.timed_s(lambda f=fleet: f.step(still), calls=20))
    return max(1, round(1 + (wanted_s - times[0]) * 20 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    ddpg, substeps = Ddpg(meter), 1
    quick = FleetOfArrays(ddpg.boats, 1)
    meter.calibrate(lambda: ddpg.tick(quick))
    if meter.dose:
        substeps = substeps_taking(meter, ddpg.boats, meter.added_s)
    fleet = (Fleet if meter.sick else FleetOfArrays)(ddpg.boats, substeps)
    meter.injected_s = 0.0
    while meter.going_on():
        ddpg.tick(fleet)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
