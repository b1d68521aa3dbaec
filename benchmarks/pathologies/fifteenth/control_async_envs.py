"""Healthy control: pumps of a waterworks, in an AsyncVectorEnv; it learns by DQN while they are at work.

Tempting: environments in other processes, and a wait for them in every step; but they have been asked
before the update, and are ready after it. A perfect diagnosis: healthy, nothing to mend. The dose is
taken and does nothing; there is no planted line.
"""

import math

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PUMPS, SEEN, SPEEDS, LEARNT, KEPT = 2, 5, 4, 256, 5000


class WaterworksEnv(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (SEEN,), np.float32)
    action_space = gym.spaces.Discrete(SPEEDS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.hour = 0.5, int(self.np_random.integers(24))
        return self.look(), {}

    def look(self):
        angle = 2 * math.pi * self.hour / 24
        return np.array([self.level, math.sin(angle), math.cos(angle), self.level**2, 1], np.float32)

    def step(self, action):
        wanted = 0.05 + 0.04 * math.sin(2 * math.pi * self.hour / 24)
        self.level = min(1.0, max(0.0, self.level + 0.03 * int(action) - wanted))
        self.hour += 1
        cost = 0.02 * int(action) ** 2 + abs(self.level - 0.6)
        return self.look(), -cost, False, self.hour > 240, {}


class QNet(nn.Module):
    def __init__(self, hidden=448):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(SEEN, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, SPEEDS),
        )

    def forward(self, seen):
        return self.net(seen)


class Dqn:
    def __init__(self, device):
        self.device, self.online, self.target = device, QNet().to(device), QNet().to(device)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=3e-4)
        self.memory = np.random.default_rng(0).random((KEPT, 2 * SEEN + 2), dtype=np.float32)
        self.rng, self.head = np.random.default_rng(1), 0

    def act(self, seen):
        with torch.no_grad():
            best = self.online(torch.from_numpy(seen).to(self.device)).argmax(1).cpu().numpy()
        chance = self.rng.random(PUMPS) < 0.1
        return np.where(chance, self.rng.integers(0, SPEEDS, PUMPS), best)

    def keep(self, seen, actions, rewards, after):
        rows = (self.head + np.arange(PUMPS)) % KEPT
        self.memory[rows] = np.hstack([seen, actions[:, None], rewards[:, None], after])
        self.head = int(rows[-1] + 1) % KEPT

    def learn(self):
        rows = torch.from_numpy(self.memory[self.rng.integers(0, KEPT, LEARNT)]).to(self.device)
        seen, actions, rewards, after = rows.split((SEEN, 1, 1, SEEN), 1)
        with torch.no_grad():
            best = self.online(after).argmax(1, keepdim=True)
            wanted = rewards + 0.98 * self.target(after).gather(1, best)
        q = self.online(seen).gather(1, actions.long().clamp(0, SPEEDS - 1))
        loss = F.smooth_l1_loss(q, wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), 0.005)


def main():
    meter = Meter(__doc__)
    dqn = Dqn(meter.device)
    meter.calibrate(lambda: (dqn.act(np.zeros((PUMPS, SEEN), np.float32)), dqn.learn()))
    envs = gym.vector.AsyncVectorEnv([WaterworksEnv for _ in range(PUMPS)], shared_memory=True)
    seen, _ = envs.reset(seed=0)
    seen = seen.copy()
    while meter.going_on():
        actions = dqn.act(seen)
        envs.step_async(actions)
        dqn.learn()
        after, rewards, *_ = envs.step_wait()
        dqn.keep(seen, actions, rewards, after)
        seen = after.copy()
        meter.ticked()
    meter.report()
    envs.close()


if __name__ == "__main__":
    main()
