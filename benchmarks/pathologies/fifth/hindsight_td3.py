"""TD3 with hindsight replay: a transition gets a goal its episode reached later, and a new reward, in Python.

How many are drawn for a step is the dose. A perfect diagnosis: the training thread spends its time in new
rewards (marked below) while the GPU has nothing to do. Fix: episodes as arrays, all goals at once.
"""

import itertools
import random
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, GOAL, ACTION, LENGTH, EPISODES = 24, 12, 6, 50, 400


class Transition(NamedTuple):
    state: list
    action: list
    achieved: list


class HindsightReplay:
    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.rng, self.np_rng = random.Random(seed), rng
        self.state = rng.standard_normal((EPISODES, LENGTH, STATE), dtype=np.float32)
        self.action = rng.standard_normal((EPISODES, LENGTH, ACTION), dtype=np.float32)
        self.achieved = rng.standard_normal((EPISODES, LENGTH, GOAL), dtype=np.float32)
        arrays = (self.state, self.action, self.achieved)
        self.episodes = [
            [Transition(*(a[e, t].tolist() for a in arrays)) for t in range(LENGTH)] for e in range(EPISODES)
        ]

    def sample(self, count):
        rows, rewards = [], []
        for _ in range(count):
            episode = self.rng.choice(self.episodes)
            now = self.rng.randrange(LENGTH - 1)
            goal = episode[self.rng.randrange(now + 1, LENGTH)].achieved
            then = episode[now].achieved
            rewards.append(-sum((a - g) ** 2 for a, g in zip(then, goal, strict=True)))  # planted
            rows.append((*episode[now].state, *goal, *episode[now].action))
        return np.array(rows, np.float32).reshape(count, -1), np.array(rewards, np.float32)

    def sample_at_once(self, count):
        e, now = self.np_rng.integers(0, EPISODES, count), self.np_rng.integers(0, LENGTH - 1, count)
        goal = self.achieved[e, self.np_rng.integers(now + 1, LENGTH)]
        reward = -np.square(self.achieved[e, now] - goal).sum(-1)
        return np.concatenate([self.state[e, now], goal, self.action[e, now]], 1), reward


def mlp(*sizes):
    layers = []
    for n_in, n_out in itertools.pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])


class TD3:
    def __init__(self, meter):
        self.meter, rows, (wide, thin) = meter, meter.pick(8192, 128), meter.pick((4096, 512), (160, 32))
        seen = STATE + GOAL
        self.actor, self.slow_actor = (mlp(seen, thin, ACTION).to(meter.device) for _ in range(2))
        self.critics, self.slow_critics = (
            nn.ModuleList(mlp(seen + ACTION, wide, wide, wide, 1) for _ in range(2)).to(meter.device)
            for _ in range(2)
        )
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), 1e-4, fused=meter.gpu)
        self.critic_opt = torch.optim.Adam(self.critics.parameters(), 1e-5, fused=meter.gpu)
        self.rows = torch.randn(rows, seen + ACTION, device=meter.device)
        self.rewards = torch.zeros(rows, 1, device=meter.device)
        self.steps = 0

    def receive(self, rows, rewards):
        for kept, new in ((self.rows, rows), (self.rewards, rewards[:, None])):
            new = torch.from_numpy(new[: len(kept)])
            new = new.pin_memory() if self.meter.gpu and len(new) else new
            kept[: len(new)].copy_(new, non_blocking=True)

    def update(self):
        seen = self.rows[:, : STATE + GOAL]
        with self.meter.autocast():
            with torch.no_grad():
                following = torch.cat([seen, self.slow_actor(seen).tanh()], 1)
                target = self.rewards + 0.98 * torch.min(*(critic(following) for critic in self.slow_critics))
            loss = sum(F.mse_loss(critic(self.rows), target) for critic in self.critics)
        self.critic_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.critic_opt.step()
        self.steps += 1
        if self.steps % 2 == 0:
            with self.meter.autocast():
                gain = self.critics[0](torch.cat([seen, self.actor(seen).tanh()], 1)).mean()
            self.actor_opt.zero_grad(set_to_none=True)
            (-gain).backward()
            self.actor_opt.step()
            with torch.no_grad():
                for slow, fast in ((self.slow_actor, self.actor), (self.slow_critics, self.critics)):
                    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), 0.005)


def main():
    meter = Meter(__doc__)
    agent, replay = TD3(meter), HindsightReplay()
    meter.calibrate(lambda: (agent.receive(*replay.sample_at_once(64)), agent.update()))
    row_s = meter.timed_s(lambda: replay.sample(500)) / 500
    count = max(64, round(meter.host_s / row_s))
    sample = replay.sample if meter.sick else replay.sample_at_once
    while meter.going_on():
        agent.receive(*sample(count))
        agent.update()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
