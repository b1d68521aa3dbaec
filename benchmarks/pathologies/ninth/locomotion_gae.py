"""A dog learns to trot by PPO; advantages are added up step by step, from the last to the first.

Each step of the sum is a handful of small kernels, which take the host longer to launch than the GPU to do;
how many steps a rollout has is the dose. A perfect diagnosis: launch-bound (any of the lines marked below).
Fix: the sum as one product with a triangle of discounts.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, ACTIONS, DOGS = 45, 12, 256
GAMMA, LAMBDA = 0.99, 0.95


def advantages_stepwise(rewards, values):
    advantages, last = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + GAMMA * values[t + 1] - values[t]  # planted
        last = delta + GAMMA * LAMBDA * last  # planted
        advantages[t] = last  # planted
    return advantages


def advantages_at_once(rewards, values):
    delta = rewards + GAMMA * values[1:] - values[:-1]
    steps = torch.arange(len(rewards), device=rewards.device)
    ahead = steps - steps[:, None]
    return torch.where(ahead >= 0, (GAMMA * LAMBDA) ** ahead.clamp(min=0).float(), 0.0) @ delta


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(STATE, width), nn.Linear(width, ACTIONS + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, state):
        h = self.enter(state)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.leave(h).float().split((ACTIONS, 1), 1)


class Rollouts:
    """What all dogs saw and did; a minibatch is as large with any number of steps."""

    def __init__(self, steps, device):
        self.rewards = torch.rand(steps, DOGS, device=device)
        self.values = torch.rand(steps + 1, DOGS, device=device)

    def minibatch(self, advantages, rows):
        every = advantages.flatten()
        return every[torch.randint(len(every), (rows,), device=every.device)]


class Ppo:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = ActorCritic(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.state = torch.randn(self.rows, STATE, device=meter.device)
        self.action = torch.randn(self.rows, ACTIONS, device=meter.device)
        self.rollouts = Rollouts(8, meter.device)

    def update(self, estimate):
        advantages = estimate(self.rollouts.rewards, self.rollouts.values)
        advantage = self.rollouts.minibatch(advantages, self.rows)
        with self.meter.autocast():
            mean, value = self.net(self.state)
        likely = -(self.action - mean).square().mean(1)
        ratio = (likely - likely.detach()).exp()
        loss = F.mse_loss(value[:, 0], advantage) - (ratio.clamp(0.8, 1.2) * advantage).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def step_s(meter):
    """One step of the sum more. It hides behind queued work only as far as the queue reaches."""
    probe = Rollouts(64, meter.device)
    return meter.timed_s(lambda: advantages_stepwise(probe.rewards, probe.values), calls=5) / 64


def steps_that_cost(meter, ppo):
    """The launches of a healthy step take a part of the host's time too; what they leave is free."""
    ppo.rollouts = Rollouts(max(8, round(meter.added_s / step_s(meter))), meter.device)
    wanted_s = (1 + meter.share) * meter.healthy_s
    for _ in range(12):
        if meter.timed_s(lambda: ppo.update(advantages_stepwise), calls=6) >= 0.95 * wanted_s:
            break
        ppo.rollouts = Rollouts(round(1.2 * len(ppo.rollouts.rewards)), meter.device)


def main():
    meter = Meter(__doc__)
    ppo = Ppo(meter)
    meter.calibrate(lambda: ppo.update(advantages_at_once))
    if meter.dose:
        steps_that_cost(meter, ppo)
    estimate = advantages_stepwise if meter.sick else advantages_at_once
    while meter.going_on():
        ppo.update(estimate)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
