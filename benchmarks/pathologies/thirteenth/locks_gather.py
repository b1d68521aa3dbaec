"""Gates of canal locks learn to let ships through, on-policy; the locks are coroutines, awaited together.

`asyncio.gather` sounds as if they were stepped at once; but nothing in a step waits, so it is one after
another. How finely the water is simulated is the dose. A perfect diagnosis: environments are stepped by the
training thread, while the GPU waits (any line marked below). Fix: all locks at once, as arrays.
"""

import asyncio
import math
import time
from contextlib import suppress

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, GATES = 5, 3


class LockEnv:
    def __init__(self, number, substeps):
        self.level, self.flow, self.ships, self.open, self.time = 0.1 * number % 1, 0.0, 1.0, 0.5, 0.0
        self.substeps = substeps

    async def step(self, action):
        for _ in range(self.substeps):
            self.open += 0.02 * (0.5 * action - self.open)  # planted
            head = 1 + 0.2 * math.sin(self.time) - self.level  # planted
            self.flow = 0.95 * self.flow + 0.05 * self.open * math.copysign(abs(head) ** 0.5, head)  # planted
            self.level += 0.01 * self.flow  # planted
            self.ships = max(0.0, self.ships - 0.001 * self.open)  # planted
            self.time += 0.01  # planted
        observation = (self.level, self.flow, self.ships, self.open, math.cos(self.time))
        return observation, -abs(1 - self.level)


class LockEnvs:
    def __init__(self, count, substeps):
        self.envs = [LockEnv(number, substeps) for number in range(count)]

    async def step(self, actions):
        pairs = zip(self.envs, actions.tolist(), strict=True)
        told = await asyncio.gather(*(env.step(action) for env, action in pairs))  # planted
        return np.array([[*seen, reward] for seen, reward in told], np.float32)


class LockArrays:
    def __init__(self, count, substeps):
        self.state, self.time, self.substeps = np.zeros((4, count)), 0.0, substeps
        self.state[0], self.state[2], self.state[3] = 0.1 * np.arange(count) % 1, 1.0, 0.5

    async def step(self, actions):
        level, flow, ships, opened = self.state
        for _ in range(self.substeps):
            opened = opened + 0.02 * (0.5 * actions - opened)
            head = 1 + 0.2 * math.sin(self.time) - level
            flow = 0.95 * flow + 0.05 * opened * np.sign(head) * np.abs(head) ** 0.5
            level, ships = level + 0.01 * flow, np.maximum(0.0, ships - 0.001 * opened)
            self.time += 0.01
        self.state = np.stack([level, flow, ships, opened])
        seen = [*self.state, np.full_like(level, math.cos(self.time)), -np.abs(1 - level)]
        return np.stack(seen, 1).astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, GATES + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.actor = nn.Sequential(nn.Linear(SEEN, 64), nn.Tanh(), nn.Linear(64, GATES))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Learner:
    def __init__(self, meter):
        self.meter, (self.locks, self.rows) = meter, meter.pick((256, 8192), (96, 160))
        self.net = ActorCritic(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN + 2, device=meter.device)
        self.seen = np.zeros((self.locks, SEEN), np.float32)

    @torch.no_grad()
    def act(self):
        scores = self.net.actor(torch.from_numpy(self.seen).to(self.meter.device))
        return torch.multinomial(scores.softmax(1), 1)[:, 0].cpu().numpy()

    def learn(self, new):
        self.past = torch.cat([self.past[len(new) :], torch.from_numpy(new).to(self.meter.device)])
        seen, action, reward = self.past.split((SEEN, 1, 1), 1)
        with self.meter.autocast():
            wish, worth = self.net(seen).split((GATES, 1), 1)
            taken = wish + self.net.actor(seen).float()
        chosen = F.log_softmax(taken, 1).gather(1, action.long().clamp(0, GATES - 1))
        gain = reward - worth
        loss = gain.square().mean() - (chosen * gain.detach()).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    async def tick(self, envs):
        actions = self.act()
        with self.meter.injecting():
            told = await envs.step(actions)
        self.learn(np.column_stack([self.seen, actions, told[:, SEEN]]).astype(np.float32))
        self.seen = told[:, :SEEN].copy()


async def step_s(envs, calls=30):
    still = np.ones(len(envs.envs))
    await envs.step(still)
    begin_s = time.perf_counter()
    for _ in range(calls):
        await envs.step(still)
    return (time.perf_counter() - begin_s) / calls


def substeps_taking(locks, wanted_s):
    few_s, many_s = (asyncio.run(step_s(LockEnvs(locks, substeps))) for substeps in (1, 41))
    return max(1, round(1 + (wanted_s - few_s) * 40 / (many_s - few_s)))


def finish(coroutine):
    """Without a loop; nothing in it waits."""
    with suppress(StopIteration):
        coroutine.send(None)


async def train(meter, learner, envs):
    while meter.going_on():
        await learner.tick(envs)
        meter.ticked()


def main():
    meter = Meter(__doc__)
    learner, substeps = Learner(meter), 1
    quick = LockArrays(learner.locks, 1)
    meter.calibrate(lambda: finish(learner.tick(quick)))
    if meter.dose:
        substeps = substeps_taking(learner.locks, meter.added_s)
    envs = (LockEnvs if meter.sick else LockArrays)(learner.locks, substeps)
    meter.injected_s = 0.0
    asyncio.run(train(meter, learner, envs))
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
