"""Two faults: rooms are explored one environment after another, and the agent is saved every few steps.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped in a loop on the
training thread (first marked line) and checkpoints much too often (second). Fix: rooms as arrays, one step
for all; no checkpoint before the end.
"""

import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, ROOMS, SEEN, WAYS = 0.75, 16, 8, 4


class Room(gym.Env):
    """A walk among pillars, which are looked at one by one."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (SEEN,), np.float32)
    action_space = gym.spaces.Discrete(WAYS)

    def __init__(self, pillars):
        self.pillars = [(0.37 * n % 1, 0.73 * n % 1) for n in range(pillars)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.y, self.age = 0.5, 0.5, 0
        return self._seen(1.0), {}

    def step(self, way):
        self.x = min(max(self.x + 0.02 * (way % 2 * 2 - 1), 0.0), 1.0)
        self.y = min(max(self.y + 0.02 * (way // 2 * 2 - 1), 0.0), 1.0)
        self.age, nearest = self.age + 1, 2.0
        for x, y in self.pillars:
            nearest = min(nearest, (x - self.x) ** 2 + (y - self.y) ** 2)
        return self._seen(nearest), nearest, False, self.age >= 200, {}

    def _seen(self, nearest):
        return np.array([self.x, self.y, nearest, self.age / 200, 1, 0, 0, 0], np.float32)


class AllRooms:
    """The same for all at once."""

    def __init__(self, pillars):
        n = np.arange(pillars)
        self.pillars = np.stack([0.37 * n % 1, 0.73 * n % 1], 1)
        self.place = np.full((ROOMS, 2), 0.5)

    def step(self, ways):
        moves = np.stack([ways % 2, ways // 2], 1) * 0.04 - 0.02
        self.place = np.clip(self.place + moves, 0, 1)
        far = np.square(self.place[:, None] - self.pillars).sum(-1).min(1)
        rest = np.broadcast_to([0, 1, 0, 0, 0], (ROOMS, 5))
        return np.concatenate([self.place, far[:, None], rest], 1).astype(np.float32), far


def one_after_another(envs, ways):
    seen, rewards = [], []
    for env, way in zip(envs, ways.tolist(), strict=True):
        after, reward, _, over, _ = env.step(way)  # planted
        seen.append(env.reset()[0] if over else after)
        rewards.append(reward)
    return np.stack(seen), rewards


class Agent(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, WAYS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h).float()


class Learner:
    def __init__(self, meter, path):
        self.meter, self.path, rows = meter, path, meter.pick(16_384, 256)
        self.agent = Agent(*meter.pick((2048, 10), (192, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(rows, SEEN, device=meter.device)
        self.reward = torch.zeros(rows, device=meter.device)
        self.ways, self.at = torch.randint(WAYS, (rows,), device=meter.device), 0

    @torch.no_grad()
    def choose(self, seen):
        with self.meter.autocast():
            logits = self.agent(torch.from_numpy(seen).to(self.meter.device))
        return logits.softmax(-1).multinomial(1)[:, 0].cpu().numpy()

    def learn(self, seen, rewards):
        rows = slice(self.at, self.at + ROOMS)
        self.seen[rows] = torch.from_numpy(seen).to(self.meter.device)
        self.reward[rows] = torch.tensor(rewards, dtype=torch.float32).to(self.meter.device)
        self.at = (self.at + ROOMS) % len(self.seen)
        with self.meter.autocast():
            q = self.agent(self.seen).gather(1, self.ways[:, None])[:, 0]
        loss = F.mse_loss(q, self.reward)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def save(self):
        torch.save({"agent": self.agent.state_dict()}, self.path)  # planted


def pillars_taking(meter, wanted_s):
    room = Room(2000)
    room.reset()
    return max(4, round(wanted_s / ROOMS * 2000 / meter.timed_s(lambda: room.step(1), calls=10)))


def main():
    meter = Meter(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(meter, Path(folder, "agent.pt"))
        seen = np.zeros((ROOMS, SEEN), np.float32)
        meter.calibrate(lambda: (learner.choose(seen), learner.learn(seen, [0.0] * ROOMS)))
        part_s, every = PART * meter.added_s, 10**6
        pillars = pillars_taking(meter, part_s) if meter.dose else 4
        envs, rooms = [Room(pillars) for _ in range(ROOMS)], AllRooms(pillars)
        for env in envs:
            env.reset(seed=0)
        if meter.sick:
            every = max(1, round(meter.timed_s(learner.save) / part_s))
        while meter.going_on():
            ways = learner.choose(seen)
            seen, rewards = one_after_another(envs, ways) if meter.sick else rooms.step(ways)
            learner.learn(seen, rewards)
            meter.ticked()
            if meter.ticks % every == 0:
                learner.save()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
