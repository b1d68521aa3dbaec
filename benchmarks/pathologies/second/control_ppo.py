"""Healthy control: PPO over thousands of environments that live on the GPU; short rollout, large updates.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import itertools

import torch
from meter import Meter
from torch import nn
from torch.distributions import Normal

STATE, ACTION, STEPS, EPOCHS, PARTS = 12, 4, 8, 3, 4


class Swarm:
    def __init__(self, count, device):
        self.state = torch.randn(count, STATE, device=device)
        self.effect = 0.1 * torch.randn(ACTION, STATE, device=device)

    def step(self, action):
        self.state = 0.97 * self.state + action.clamp(-1, 1) @ self.effect
        return -self.state.square().mean(1)


class Agent(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        sizes = [STATE, *[width] * depth]
        self.body = nn.Sequential()
        for inputs, outputs in itertools.pairwise(sizes):
            self.body.extend([nn.Linear(inputs, outputs), nn.ELU()])
        self.mean, self.value = nn.Linear(width, ACTION), nn.Linear(width, 1)

    def forward(self, state):
        hidden = self.body(state)
        return Normal(self.mean(hidden).float(), 0.5, validate_args=False), self.value(hidden).float()[:, 0]


class Ppo:
    def __init__(self, meter):
        self.meter, self.env = meter, Swarm(meter.pick(16384, 128), meter.device)
        self.agent = Agent(*meter.pick((2048, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=1e-5, fused=meter.gpu)

    @torch.no_grad()
    def rollout(self):
        kept = []
        for _ in range(STEPS):
            state = self.env.state
            with self.meter.autocast():
                dist, value = self.agent(state)
            action = dist.sample()
            reward = self.env.step(action)
            kept.append((state, action, dist.log_prob(action).sum(1), reward + 0.9 * value, value))
        return [torch.cat(column) for column in zip(*kept, strict=True)]

    def update(self, state, action, before, goal, value):
        with self.meter.autocast():
            dist, now = self.agent(state)
        ratio = (dist.log_prob(action).sum(1) - before).exp()
        gain = goal - value
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + (now - goal).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def iteration(self, ticked):
        batch = self.rollout()
        for _ in range(EPOCHS):
            order = torch.randperm(len(batch[0]), device=self.meter.device)
            for part in order.chunk(PARTS):
                self.update(*(column[part] for column in batch))
                ticked()


if __name__ == "__main__":
    meter = Meter(__doc__)
    ppo = Ppo(meter)
    meter.calibrate(lambda: ppo.iteration(lambda: None))
    meter.healthy_s /= EPOCHS * PARTS
    while meter.going_on():
        ppo.iteration(meter.ticked)
    meter.report()
