"""Soft actor-critic with a replay by priority; which rows are drawn is decided by a sum tree in Python.

How many rows are drawn and given a new priority in a step is the dose. A perfect diagnosis: a line of Python
on the training thread (marked below), for which the GPU waits. Fix: sums and search by NumPy.
"""

import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, ACTIONS, ROOM = 17, 6, 16_384


class SumTree:
    """Each node is the sum of its two children; the leaves are the priorities."""

    def __init__(self):
        self.random = random.Random(0)
        self.sums = [1.0] * (2 * ROOM)
        for node in range(ROOM - 1, 0, -1):
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]

    def find(self, mass):
        node = 1
        while node < ROOM:
            node *= 2
            if mass > self.sums[node]:  # planted
                mass -= self.sums[node]
                node += 1
        return node - ROOM

    def change(self, row, priority):
        node = row + ROOM
        more = priority - self.sums[node]
        while node:
            self.sums[node] += more
            node //= 2

    def draw(self, count):
        total = self.sums[1]
        rows = [self.find(self.random.random() * total) for _ in range(count)]
        for row in rows:
            self.change(row, 0.2 + 0.8 * self.random.random())
        return rows


class FlatPriorities:
    def __init__(self):
        self.rng, self.weights = np.random.default_rng(0), np.ones(ROOM)

    def draw(self, count):
        sums = self.weights.cumsum()
        rows = np.searchsorted(sums, self.rng.random(count) * sums[-1]).clip(max=ROOM - 1)
        self.weights[rows] = 0.2 + 0.8 * self.rng.random(count)
        return rows


class Net(nn.Module):
    def __init__(self, enter, width, depth, leave):
        super().__init__()
        self.enter, self.leave = nn.Linear(enter, width), nn.Linear(width, leave)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, *parts):
        h = F.relu(self.enter(torch.cat(parts, 1)))
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.leave(h).float()


class SoftActorCritic:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        shape = meter.pick((3072, 2), (160, 2))
        self.actor = Net(SEEN, *shape, 2 * ACTIONS).to(meter.device)
        self.critic = Net(SEEN + ACTIONS, *shape, 2).to(meter.device)
        self.slow = Net(SEEN + ACTIONS, *shape, 2).to(meter.device).requires_grad_(False)
        self.actor_opt, self.critic_opt = (
            torch.optim.Adam(net.parameters(), 1e-5, fused=meter.gpu) for net in (self.actor, self.critic)
        )
        self.replay = torch.randn(ROOM, 2 * SEEN + ACTIONS, device=meter.device)
        self.weights = list(self.critic.parameters())

    def act(self, seen):
        mean, spread = self.actor(seen).chunk(2, 1)
        spread = spread.clamp(-5, 2)
        noise = torch.randn_like(mean)
        action = (mean + noise * spread.exp()).tanh()
        likely = (-0.5 * noise.square() - spread - (1 - action.square() + 1e-4).log()).sum(1)
        return action, likely

    def update(self, rows):
        rows = torch.as_tensor(rows[: self.rows])
        rows = (rows.pin_memory() if self.meter.gpu else rows).to(self.meter.device, non_blocking=True)
        rows = rows.repeat(-(-self.rows // len(rows)))[: self.rows]
        seen, action, after = self.replay[rows].split((SEEN, ACTIONS, SEEN), 1)
        with self.meter.autocast():
            with torch.no_grad():
                then, likely = self.act(after)
                ahead = self.slow(after, then).amin(1) - 0.1 * likely
            value = self.critic(seen, action.tanh())
        loss = F.mse_loss(value, (seen[:, 0] + 0.98 * ahead)[:, None].expand(-1, 2))
        self.learn(loss, self.critic_opt)
        for weight in self.weights:
            weight.requires_grad_(False)
        with self.meter.autocast():
            now, likely = self.act(seen)
            loss = (0.1 * likely - self.critic(seen, now).amin(1)).mean()
        self.learn(loss, self.actor_opt)
        for weight in self.weights:
            weight.requires_grad_(True)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.slow.parameters()), self.weights, 0.005)

    def learn(self, loss, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def main():
    meter = Meter(__doc__)
    agent, tree, flat = SoftActorCritic(meter), SumTree(), FlatPriorities()
    meter.calibrate(lambda: agent.update(flat.draw(64)))
    one_s = meter.timed_s(lambda: tree.draw(1000), calls=4) / 1000
    count = max(64, round(meter.host_s / one_s)) if meter.dose else 64
    replay = tree if meter.sick else flat
    while meter.going_on():
        with meter.injecting():
            rows = replay.draw(count)
        agent.update(rows)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
