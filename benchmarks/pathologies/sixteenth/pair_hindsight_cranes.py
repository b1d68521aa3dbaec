"""Two faults: each crane asks the policy for itself; goals are changed in hindsight, row by row.

Each takes three quarters of a dose. A perfect diagnosis names both: one inference per environment (first
marked line), and a hot line of Python (second). Fix: one inference for all cranes, and arrays of goals.
"""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

PART, SEEN, GOAL, ACT, LEARNT, LENGTH, STORED = 0.75, 6, 2, 2, 224, 30, 60


class CraneYard:
    def __init__(self, cranes):
        rng = np.random.default_rng(0)
        self.hook, self.speed, self.goal = rng.normal(size=(3, cranes, 2)).astype(np.float32)

    def observe(self):
        return np.hstack([self.hook, self.speed, self.goal, self.goal - self.hook])

    def advance(self, actions):
        self.speed = 0.9 * self.speed + 0.1 * np.tanh(actions)
        self.hook = np.clip(self.hook + 0.1 * self.speed, -3, 3)


class Policy(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.enter, self.norm = nn.Linear(SEEN + GOAL, size), nn.LayerNorm(size)
        self.leave = nn.Linear(size, ACT)

    def forward(self, seen):
        return self.leave(F.relu(self.norm(self.enter(seen)))).tanh()


class CraneAgent:
    def __init__(self, policy, device):
        self.policy, self.device = policy, device

    @torch.no_grad()
    def choose(self, seen):
        return self.policy(torch.from_numpy(seen).to(self.device)[None])[0].cpu().numpy()  # planted


class AskInTurn:
    def __init__(self, policy, device):
        self.agent = CraneAgent(policy, device)

    def __call__(self, seen):
        return np.stack([self.agent.choose(row) for row in seen])


class AskTogether:
    def __init__(self, policy, device):
        self.policy, self.device = policy, device

    @torch.no_grad()
    def __call__(self, seen):
        return self.policy(torch.from_numpy(seen).to(self.device)).cpu().numpy()


class DictReplay:
    """Episodes as lists of dictionaries."""

    def __init__(self):
        noise, self.rng = np.random.default_rng(1), random.Random(0)
        self.arrays = noise.normal(size=(STORED, LENGTH, SEEN + ACT)).astype(np.float32)
        self.episodes = [
            [
                {"seen": row[:SEEN].tolist(), "act": row[SEEN:].tolist(), "hook": row[:2].tolist()}
                for row in episode
            ]
            for episode in self.arrays
        ]

    def nearest_later(self, episode, begin, tries):
        """The best of some goals that were reached afterwards."""
        here, best, reward = episode[begin]["hook"], None, -9.0
        for _ in range(tries):
            later = episode[begin + int(self.rng.random() * (LENGTH - begin))]["hook"]  # planted
            gained = -math.hypot(later[0] - here[0], later[1] - here[1])
            if gained > reward or best is None:
                best, reward = later, gained
        return best, reward

    def sample(self, tries):
        rows = []
        for _ in range(LEARNT // 4):
            episode, begin = self.rng.choice(self.episodes), self.rng.randrange(LENGTH)
            goal, reward = self.nearest_later(episode, begin, tries)
            rows.append([*episode[begin]["seen"], *goal, *episode[begin]["act"], reward])
        return torch.tensor(rows).repeat(4, 1)


class ArrayReplay(DictReplay):
    def __init__(self):
        super().__init__()
        self.draw = np.random.default_rng(2)

    def sample(self, tries):
        which, begin = self.draw.integers(0, [[STORED], [LENGTH]], (2, LEARNT))
        later = begin + (self.draw.random((4, LEARNT)) * (LENGTH - begin)).astype(int)
        rows, goals = self.arrays[which, begin], self.arrays[which, later, :2]
        rewards = -np.linalg.norm(goals - rows[:, :2], axis=2)
        best, every = rewards.argmax(0), np.arange(LEARNT)
        parts = rows[:, :SEEN], goals[best, every], rows[:, SEEN:], rewards[best, every][:, None]
        return torch.from_numpy(np.hstack(parts).astype(np.float32))


class DDPG:
    def __init__(self, meter):
        self.meter, device = meter, meter.device
        self.policy = Policy().to(device)
        inside, size = SEEN + GOAL + ACT, 384
        self.critic = nn.Sequential(
            nn.Linear(inside, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 1)
        ).to(device)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-4)

    def learn(self, batch):
        seen, act, reward = batch.to(self.meter.device).split((SEEN + GOAL, ACT, 1), 1)
        loss = F.mse_loss(self.critic(torch.cat([seen, act], 1)), reward)
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        wished = self.critic(torch.cat([seen, self.policy(seen)], 1))
        self.policy_optimizer.zero_grad()
        (-wished.mean()).backward()
        self.policy_optimizer.step()

    def tick(self, yard, ask, replay, tries):
        with self.meter.injecting():
            actions = ask(yard.observe())
        yard.advance(actions)
        with self.meter.injecting():
            batch = replay.sample(tries)
        self.learn(batch)


def main():
    meter, cranes, tries = Meter(__doc__), 6, 4
    learner = DDPG(meter)
    one, every = (kind(learner.policy, meter.device) for kind in (AskInTurn, AskTogether))
    yard, replay = CraneYard(cranes), ArrayReplay()
    meter.calibrate(lambda: learner.tick(yard, every, replay, tries))
    part_s, ask = PART * meter.added_s, every
    if meter.dose:
        seen = np.zeros((90, SEEN + GOAL), np.float32)
        asking = lambda count: lambda: one(seen[:count])  # noqa: E731
        cranes = max(1, amount_taking(meter, asking, 6, 46, part_s))
        slow = DictReplay()
        drawing = lambda count: lambda: slow.sample(count)  # noqa: E731
        tries = max(1, amount_taking(meter, drawing, 2, 22, part_s))
    if meter.sick:
        ask, replay = one, DictReplay()
    yard, meter.injected_s = CraneYard(cranes), 0.0
    while meter.going_on():
        learner.tick(yard, ask, replay, tries)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
