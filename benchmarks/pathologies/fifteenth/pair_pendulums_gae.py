"""Two faults: double pendulums are simulated by the training thread, and advantages come from Python's lists.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped by the training
thread (first marked line), and a hot line of Python (second). Fix: arrays for all pendulums, and tensors
for all discounts.
"""

import math

import gymnasium
import numpy as np
import torch
from stopwatch import Meter, amount_taking
from torch import nn

PART, ENVS, STEPS, SEEN, LAMBDA = 0.75, 8, 12, 4, 0.95


class DoublePendulum(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-50, 50, (SEEN,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, parts):
        self.parts = parts

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-0.3, 0.3, 4).tolist()
        return np.array(self.state, np.float32), {}

    def slopes(self, torque):
        upper, lower, _, lower_speed = self.state
        away = upper - lower
        pull = math.cos(away) * lower_speed**2 * 0.2
        return torque - math.sin(upper) - pull, 0.3 * math.sin(away) - math.sin(lower) - 0.1 * lower_speed

    def step(self, action):
        dt = 0.05 / self.parts
        for _ in range(self.parts):
            one, other = self.slopes(action - 1)
            upper, lower, upper_speed, lower_speed = self.state
            upper_speed, lower_speed = upper_speed + dt * one, lower_speed + dt * other
            self.state = [upper + dt * upper_speed, lower + dt * lower_speed, upper_speed, lower_speed]
        height = -math.cos(self.state[0]) - math.cos(self.state[1])
        return np.array(self.state, np.float32), height, False, False, {}


class PendulumList:
    def __init__(self, parts):
        self.envs = [DoublePendulum(parts) for _ in range(ENVS)]
        self.seen = np.stack([env.reset(seed=number)[0] for number, env in enumerate(self.envs)])

    def step(self, actions):
        told = [env.step(action) for env, action in zip(self.envs, actions.tolist(), strict=True)]  # planted
        self.seen = np.stack([seen for seen, *_ in told])
        return self.seen, np.array([height for _, height, *_ in told], np.float32)


class PendulumArray:
    def __init__(self, parts):
        self.seen = np.random.default_rng(0).uniform(-0.3, 0.3, (ENVS, SEEN)).astype(np.float32)

    def step(self, actions):
        upper, lower, upper_speed, lower_speed = self.seen.T
        away = upper - lower
        pull = np.cos(away) * lower_speed**2 * 0.2
        upper_speed = upper_speed + 0.05 * (actions.numpy() - 1 - np.sin(upper) - pull)
        lower_speed = lower_speed + 0.05 * (0.3 * np.sin(away) - np.sin(lower) - 0.1 * lower_speed)
        upper, lower = upper + 0.05 * upper_speed, lower + 0.05 * lower_speed
        self.seen = np.stack([upper, lower, upper_speed, lower_speed], 1).astype(np.float32)
        return self.seen, (-np.cos(upper) - np.cos(lower)).astype(np.float32)


def gae_by_lists(rewards, values, discounts):
    """Advantages for each discount, and the mean of them all."""
    rewards, values = rewards.tolist(), values.tolist()
    total = [[0.0] * ENVS for _ in range(STEPS)]
    for gamma in discounts:
        for env in range(ENVS):
            last = 0.0
            for t in reversed(range(STEPS)):
                delta = rewards[t][env] + gamma * values[t + 1][env] - values[t][env]
                last = delta + gamma * LAMBDA * last
                total[t][env] += last  # planted
    return torch.tensor(total) / len(discounts)


def gae_by_tensors(rewards, values, discounts):
    gamma = torch.tensor(discounts)[:, None]
    last, total = torch.zeros(len(discounts), ENVS), torch.zeros(STEPS, ENVS)
    for t in reversed(range(STEPS)):
        last = rewards[t] + gamma * values[t + 1] - values[t] + gamma * LAMBDA * last
        total[t] = last.mean(0)
    return total


class Policy(nn.Module):
    def __init__(self, hidden=320):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SEEN, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.logits, self.value = nn.Linear(hidden, 3), nn.Linear(hidden, 1)

    def forward(self, seen):
        h = self.body(seen)
        return torch.distributions.Categorical(logits=self.logits(h)), self.value(h)[:, 0]


class PPO:
    def __init__(self, meter):
        self.meter, self.policy = meter, Policy().to(meter.device)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-4)

    @torch.no_grad()
    def collect(self, envs):
        rows = []
        for _ in range(STEPS):
            seen = torch.from_numpy(envs.seen).to(self.meter.device)
            chances, value = self.policy(seen)
            action = chances.sample()
            with self.meter.injecting():
                _, reward = envs.step(action.cpu())
            rows.append((seen, action, chances.log_prob(action), value.cpu(), torch.from_numpy(reward)))
        last = self.policy(torch.from_numpy(envs.seen).to(self.meter.device))[1].cpu()
        seen, action, log_p, values, rewards = (torch.stack(part) for part in zip(*rows, strict=True))
        return seen, action, log_p, torch.cat([values, last[None]]), rewards

    def iterate(self, envs, gae, discounts):
        seen, action, log_p, values, rewards = self.collect(envs)
        with self.meter.injecting():
            gain = gae(rewards, values, discounts).float()
        returns = (gain + values[:-1]).flatten().to(self.meter.device)
        gain = ((gain - gain.mean()) / (gain.std() + 1e-8)).flatten().to(self.meter.device)
        seen, action, log_p = seen.flatten(0, 1), action.flatten(), log_p.flatten()
        for _ in range(4):
            chances, value = self.policy(seen)
            ratio = (chances.log_prob(action) - log_p).exp()
            gained = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = (value - returns).square().mean() - gained - 0.01 * chances.entropy().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def spread(count):
    return [0.9 + 0.09 * k / count for k in range(count)]


def main():
    meter, parts, discounts = Meter(__doc__), 1, 4
    ppo, envs, gae = PPO(meter), PendulumArray(1), gae_by_tensors
    meter.calibrate(lambda: ppo.iterate(envs, gae, spread(discounts)))
    part_s = PART * meter.added_s
    if meter.dose:
        actions, zeros = torch.ones(ENVS, dtype=torch.long), torch.zeros(STEPS + 1, ENVS)

        def stepping(parts):
            pendulums = PendulumList(parts)
            return lambda: pendulums.step(actions)

        parts = amount_taking(meter, stepping, 1, 31, part_s / STEPS)
        adding = lambda count: lambda: gae_by_lists(zeros[1:], zeros, spread(count))  # noqa: E731
        discounts = amount_taking(meter, adding, 4, 104, part_s)
    if meter.sick:
        envs, gae = PendulumList(parts), gae_by_lists
    meter.injected_s, discounts = 0.0, spread(discounts)
    while meter.going_on():
        ppo.iterate(envs, gae, discounts)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
