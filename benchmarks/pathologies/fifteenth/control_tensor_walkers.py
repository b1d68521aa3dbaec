"""Healthy control: walkers on uneven ground, as tensors, and a policy of PPO; all in one process.

Tempting: environments stepped by the training thread, and a loop over steps for advantages; but a step is
a few products for all walkers. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import torch
from stopwatch import Meter
from torch import nn

WALKERS, JOINTS, HORIZON, EPOCHS, GAMMA, LAMBDA = 64, 6, 6, 3, 0.99, 0.95


class VecTask:
    """What simulators for many robots at once look like."""

    def __init__(self, device):
        self.device, self.num_obs = device, 2 * JOINTS + 1
        self.dof_pos, self.dof_vel = torch.zeros(2, WALKERS, JOINTS, device=device).unbind(0)
        self.progress_buf = torch.randint(0, 200, (WALKERS,), device=device)

    def observe(self):
        return torch.cat([self.dof_pos, self.dof_vel, self.progress_buf[:, None] / 200], 1)

    def reset_idx(self, over):
        alive = (~over)[:, None]
        self.dof_pos, self.dof_vel = self.dof_pos * alive, self.dof_vel * alive
        self.progress_buf = self.progress_buf * alive[:, 0]

    def step(self, actions):
        self.dof_vel = 0.9 * self.dof_vel + 0.1 * (actions.tanh() - self.dof_pos.sin())
        self.dof_pos = self.dof_pos + 0.1 * self.dof_vel
        self.progress_buf = self.progress_buf + 1
        over = (self.progress_buf >= 200) | (self.dof_pos.abs().amax(1) > 2)
        reward = self.dof_vel[:, 0] - 0.01 * actions.square().sum(1)
        self.reset_idx(over)
        return self.observe(), reward, over.float()


class ActorCritic(nn.Module):
    def __init__(self, seen, hidden=256):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(seen, hidden), nn.ELU(), nn.Linear(hidden, JOINTS))
        self.critic = nn.Sequential(
            nn.Linear(seen, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, 1)
        )
        self.log_std = nn.Parameter(torch.full((JOINTS,), -0.7))

    def policy(self, seen):
        return torch.distributions.Normal(self.actor(seen), self.log_std.exp())


class OnPolicyRunner:
    def __init__(self, env, device):
        self.env, self.net = env, ActorCritic(env.num_obs).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=5e-4)
        self.seen = env.observe()

    @torch.no_grad()
    def collect(self):
        steps = []
        for _ in range(HORIZON):
            policy = self.net.policy(self.seen)
            action = policy.sample()
            after, reward, over = self.env.step(action)
            value = self.net.critic(self.seen)[:, 0]
            steps.append((self.seen, action, policy.log_prob(action).sum(1), value, reward, over))
            self.seen = after
        return [torch.stack(part) for part in zip(*steps, strict=True)]

    @torch.no_grad()
    def advantages(self, value, reward, over):
        following, last, gains = self.net.critic(self.seen)[:, 0], 0, []
        for t in reversed(range(HORIZON)):
            delta = reward[t] + GAMMA * following * (1 - over[t]) - value[t]
            last = delta + GAMMA * LAMBDA * (1 - over[t]) * last
            gains.append(last)
            following = value[t]
        return torch.stack(gains[::-1])

    def learn_once(self):
        seen, action, log_p, value, reward, over = self.collect()
        gain = self.advantages(value, reward, over)
        seen, action, log_p, wanted = (part.flatten(0, 1) for part in (seen, action, log_p, gain + value))
        gain = ((gain - gain.mean()) / (gain.std() + 1e-8)).flatten()
        for _ in range(EPOCHS):
            ratio = (self.net.policy(seen).log_prob(action).sum(1) - log_p).exp()
            surrogate = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = (self.net.critic(seen)[:, 0] - wanted).square().mean() - surrogate
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()


def main():
    meter = Meter(__doc__)
    runner = OnPolicyRunner(VecTask(meter.device), meter.device)
    meter.calibrate(runner.learn_once)
    while meter.going_on():
        runner.learn_once()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
