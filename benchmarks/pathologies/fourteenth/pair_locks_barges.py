"""Two faults: barges on canals are simulated by the training thread, and the value net is tested too often.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped by the training
thread (first marked line), and evaluations (second). Fix: arrays for all canals, and a test every few
thousand steps.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

PART, CANALS, SEEN, LEVERS, LEARNT, RARELY = 0.75, 10, 4, 3, 256, 5000


class CanalEnv:
    """Water levels between gates; a lever lets water from one to the next."""

    def __init__(self, gates, number):
        self.levels, self.time = [0.5 + 0.01 * number] * gates, 0

    def observation(self):
        levels = self.levels
        return [levels[0], levels[-1], sum(levels) / len(levels), math.sin(0.01 * self.time)]

    def step(self, lever):
        self.time += 1
        rain = 0.02 * math.sin(0.01 * self.time)
        for gate in range(len(self.levels) - 1):
            flow = 0.05 * (lever + 1) * (self.levels[gate] - self.levels[gate + 1])
            self.levels[gate] += rain - flow
            self.levels[gate + 1] = max(0.0, self.levels[gate + 1] + flow)
        return self.observation(), -abs(self.levels[-1] - 0.5), False, {}


class CanalList:
    def __init__(self, gates):
        self.envs = [CanalEnv(gates, number) for number in range(CANALS)]

    def step(self, levers):
        results = [env.step(lever) for env, lever in zip(self.envs, levers, strict=True)]  # planted
        seen, rewards, _, _ = zip(*results, strict=True)
        return torch.tensor(seen), torch.tensor(rewards)


class CanalArray:
    def __init__(self, gates):
        self.levels, self.time = np.full((CANALS, gates), 0.5, np.float32), 0

    def step(self, levers):
        self.time += 1
        flow = 0.05 * (np.array(levers)[:, None] + 1) * -np.diff(self.levels, axis=1)
        self.levels[:, :-1] += 0.02 * math.sin(0.01 * self.time) - flow
        self.levels[:, 1:] = (self.levels[:, 1:] + flow).clip(0)
        clock = np.full(CANALS, math.sin(0.01 * self.time))
        seen = [self.levels[:, 0], self.levels[:, -1], self.levels.mean(1), clock]
        rewards = -np.abs(self.levels[:, -1] - 0.5)
        return torch.from_numpy(np.stack(seen, 1)).float(), torch.from_numpy(rewards)


class DuelingNet(nn.Module):
    def __init__(self, hidden=480):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(SEEN, hidden), nn.Softplus(), nn.Linear(hidden, hidden), nn.Dropout(0.1), nn.Softplus()
        )
        self.value, self.advantage = nn.Linear(hidden, 1), nn.Linear(hidden, LEVERS)

    def forward(self, seen):
        h = self.body(seen)
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(1, keepdim=True)


class Dqn:
    def __init__(self, device):
        self.device, self.net, self.target = device, DuelingNet().to(device), DuelingNet().to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, amsgrad=True)
        self.seen, self.reward = torch.rand(LEARNT, SEEN), torch.rand(LEARNT)
        self.held_out, self.gaps = torch.rand(6, LEARNT, SEEN, device=device), []

    def levers(self):
        with torch.no_grad():
            return self.net(self.seen[-CANALS:].to(self.device)).argmax(1).tolist()

    def keep(self, seen, reward):
        self.seen = torch.cat([self.seen[CANALS:], seen])
        self.reward = torch.cat([self.reward[CANALS:], reward])

    def learn(self):
        seen, reward = self.seen.to(self.device), self.reward.to(self.device)
        with torch.no_grad():
            wanted = reward + 0.95 * self.target(seen.roll(-CANALS, 0)).amax(1)
        loss = F.smooth_l1_loss(self.net(seen).amax(1), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.net.parameters()), 0.01)

    def test(self):
        self.net.eval()
        with torch.inference_mode():
            gaps = [(self.net(part) - self.target(part)).abs().mean() for part in self.held_out]
        self.net.train()
        self.gaps.append(float(torch.stack(gaps).mean()))


def main():
    meter, gates, test_every = Meter(__doc__), 4, RARELY
    dqn = Dqn(meter.device)

    def tick(canals):
        levers = dqn.levers()
        with meter.injecting():
            seen, reward = canals.step(levers)
        dqn.keep(seen, reward)
        dqn.learn()

    quick = CanalArray(gates)
    meter.calibrate(lambda: tick(quick))
    part_s = PART * meter.added_s
    if meter.dose:

        def stepping(gates):
            canals = CanalList(gates)
            return lambda: canals.step([1] * CANALS)

        gates = amount_taking(meter, stepping, 4, 104, part_s)
    if meter.sick:
        test_every = max(1, round(meter.timed_s(dqn.test) / part_s))
    canals, meter.injected_s = (CanalList if meter.sick else CanalArray)(gates), 0.0
    while meter.going_on():
        tick(canals)
        meter.ticked()
        if meter.ticks % test_every == 0:
            with meter.injecting():
                dqn.test()  # planted
    meter.report()


if __name__ == "__main__":
    main()
