"""Soft actor-critic for a soft gripper: an environment in the manner of gymnasium, with its wrappers.

How many links the finger has is the dose. A perfect diagnosis: the environment is stepped on the training
thread while the GPU waits (the step marked below). Fix: the links are bent by NumPy, all at once.
"""

import math
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, FRAMES, ACTIONS = 6, 3, 2


class Gripper:
    """A finger of many links, each with a spring and a damper to the next."""

    def __init__(self, links):
        self.links = links

    def reset(self, seed=None):
        self.bent, self.speed, self.age = [0.0] * self.links, [0.0] * self.links, 0
        return self._seen(), {}

    def bend(self, tendon):
        bent, speed, last = self.bent, self.speed, self.links - 1
        for n in range(self.links):
            left, right = bent[n - 1] if n else 0.0, bent[n + 1] if n < last else bent[n]
            pull = 4 * (left - 2 * bent[n] + right) + tendon * math.cos(bent[n])
            speed[n] += 0.02 * (pull - 0.8 * speed[n])
            bent[n] += 0.02 * speed[n]

    def step(self, action):
        self.bend(float(action[0]))
        self.age += 1
        gripped = -abs(self.bent[-1] - 0.7) - 0.01 * abs(float(action[1]))
        return self._seen(), gripped, False, False, {}

    def _seen(self):
        tip = self.bent[-1]
        return np.array([tip, self.speed[-1], self.bent[0], math.sin(tip), math.cos(tip), 1.0], np.float32)


class QuickGripper(Gripper):
    def reset(self, seed=None):
        super().reset(seed)
        self.bent, self.speed = np.zeros(self.links), np.zeros(self.links)
        return self._seen(), {}

    def bend(self, tendon):
        edges = np.concatenate([[0.0], self.bent, self.bent[-1:]])
        pull = 4 * (edges[:-2] - 2 * self.bent + edges[2:]) + tendon * np.cos(self.bent)
        self.speed += 0.02 * (pull - 0.8 * self.speed)
        self.bent = self.bent + 0.02 * self.speed


class Wrapper:
    def __init__(self, env):
        self.env = env

    def reset(self, **options):
        return self.env.reset(**options)

    def step(self, action):
        return self.env.step(action)


class TimeLimit(Wrapper):
    def step(self, action):
        seen, reward, done, late, info = self.env.step(action)
        self.left -= 1
        return seen, reward, done, late or self.left <= 0, info

    def reset(self, **options):
        self.left = 150
        return self.env.reset(**options)


class StackFrames(Wrapper):
    def reset(self, **options):
        seen, info = self.env.reset(**options)
        self.frames = deque([seen] * FRAMES, maxlen=FRAMES)
        return np.concatenate(self.frames), info

    def step(self, action):
        seen, *rest = self.env.step(action)
        self.frames.append(seen)
        return np.concatenate(self.frames), *rest


def make(kind, links):
    return StackFrames(TimeLimit(kind(links)))


class Agent:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        width, depth = meter.pick((4096, 5), (256, 4))
        body = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.SiLU())]
        enter = nn.Linear(FRAMES * SEEN + ACTIONS, width)
        self.critic = nn.Sequential(enter, nn.SiLU(), *body, nn.Linear(width, 2)).to(meter.device)
        self.actor = nn.Linear(FRAMES * SEEN, ACTIONS).to(meter.device)
        weights = [*self.critic.parameters(), *self.actor.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.replay = torch.randn(rows, FRAMES * SEEN + ACTIONS + 1, device=meter.device)
        self.at = 0

    @torch.no_grad()
    def act(self, seen):
        mean = self.actor(torch.from_numpy(seen).to(self.meter.device))
        return torch.tanh(mean + 0.3 * torch.randn_like(mean)).cpu().numpy()

    def store(self, seen, action, reward):
        row = torch.from_numpy(np.concatenate([seen, action, [reward]]).astype(np.float32))
        self.replay[self.at] = row.to(self.meter.device)
        self.at = (self.at + 1) % len(self.replay)

    def learn(self):
        seen, action, reward = self.replay.split((FRAMES * SEEN, ACTIONS, 1), 1)
        with self.meter.autocast():
            values = self.critic(torch.cat([seen, action], 1)).float()
        better = self.actor(seen).tanh()
        loss = F.mse_loss(values, reward.expand(-1, 2)) + F.mse_loss(better, action)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def links_for(meter, wanted_s):
    times = []
    for links in (10, 210):
        env = make(Gripper, links)
        env.reset()
        times.append(meter.timed_s(lambda e=env: e.step(np.zeros(ACTIONS)), calls=20))
    return max(4, round(10 + (wanted_s - times[0]) * 200 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    agent, calm = Agent(meter), make(Gripper, 4)
    seen, _ = calm.reset()
    meter.calibrate(lambda: (agent.store(seen, agent.act(seen), 0.0), agent.learn()))
    links = links_for(meter, meter.added_s) if meter.dose else 4
    env = make(QuickGripper if meter.dose and not meter.sick else Gripper, links)
    seen, _ = env.reset()
    while meter.going_on():
        action = agent.act(seen)
        with meter.injecting():
            after, reward, done, late, _ = env.step(action)  # planted
        agent.store(seen, action, reward)
        agent.learn()
        seen = env.reset()[0] if done or late else after
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
