"""Healthy control: PPO on hoppers that live on the GPU; a rollout of some steps, then passes over it.

A tick is one pass over a part of the rollout. A perfect diagnosis: healthy, nothing to mend. The dose is
taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, LEGS = 16, 3


class Hoppers:
    """Springs and gravity, for all hoppers at once."""

    def __init__(self, count, device):
        self.count, self.device = count, device
        self.state = torch.randn(count, STATE, device=device)
        self.legs = 0.2 * torch.randn(LEGS, STATE, device=device)
        self.springs = 0.1 * torch.randn(STATE, STATE, device=device)

    def step(self, action):
        self.state = torch.tanh(0.97 * self.state + self.state @ self.springs + action.tanh() @ self.legs)
        return self.state, self.state[:, 0] - 0.01 * action.square().sum(1)


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(STATE, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.action, self.value = nn.Linear(width, LEGS), nn.Linear(width, 1)

    def forward(self, state):
        h = F.elu(self.enter(state))
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.action(h).float(), self.value(h)[:, 0].float()


class PPO:
    def __init__(self, meter):
        self.meter, (count, self.length, self.parts) = meter, meter.pick((4096, 8, 4), (64, 8, 4))
        self.net = ActorCritic(*meter.pick((4096, 5), (128, 3))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.world = Hoppers(count, meter.device)

    @torch.no_grad()
    def rollout(self):
        kept = []
        state = self.world.state
        for _ in range(self.length):
            with self.meter.autocast():
                mean, value = self.net(state)
            action = mean + 0.3 * torch.randn_like(mean)
            after, reward = self.world.step(action)
            kept.append((state, action, self.likely(mean, action), value, reward))
            state = after
        states, actions, likely, values, rewards = map(torch.stack, zip(*kept, strict=True))
        returns, ahead = torch.empty_like(rewards), values[-1]
        for n in reversed(range(self.length)):
            ahead = returns[n] = rewards[n] + 0.99 * ahead
        return [t.flatten(0, 1) for t in (states, actions, likely, returns, returns - values)]

    def likely(self, mean, action):
        return -0.5 * ((action - mean) / 0.3).square().sum(-1)

    def learn(self, states, actions, before, returns, gain):
        with self.meter.autocast():
            mean, value = self.net(states)
        ratio = (self.likely(mean, actions) - before).exp()
        gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        bounded = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        loss = 0.5 * F.mse_loss(value, returns) - bounded.mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def minibatches(self, passes=2):
        while True:
            rollout = self.rollout()
            rows = len(rollout[0])
            for _ in range(passes):
                order = torch.randperm(rows, device=self.meter.device)
                for part in order.chunk(self.parts):
                    yield [column[part] for column in rollout]


def main():
    meter = Meter(__doc__)
    ppo = PPO(meter)
    batches = ppo.minibatches()
    meter.calibrate(lambda: ppo.learn(*next(batches)))
    while meter.going_on():
        ppo.learn(*next(batches))
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
