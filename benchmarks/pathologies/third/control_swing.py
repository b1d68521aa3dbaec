"""Healthy control: PPO on pendulums that are rows of a GPU tensor, a large policy, large updates.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
from stopwatch import Meter
from torch import nn

HORIZON, EPOCHS, MINIBATCHES = 8, 4, 4


class Pendulums:
    def __init__(self, count, device):
        self.angle = 6.28 * torch.rand(count, 1, device=device)
        self.speed = torch.zeros(count, 1, device=device)

    def observe(self):
        return torch.cat([self.angle.cos(), self.angle.sin(), self.speed], 1)

    def step(self, torque):
        self.speed = (0.98 * self.speed + 0.1 * (torque.clamp(-2, 2) - self.angle.sin())).clamp(-8, 8)
        self.angle = self.angle + 0.05 * self.speed
        return self.angle.cos() - 0.01 * self.speed.square()


def tower(width, depth, outputs):
    layers = [nn.Linear(3, width), nn.SiLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class PPO:
    def __init__(self, meter):
        self.meter = meter
        self.envs = Pendulums(meter.pick(8192, 64), meter.device)
        shape = meter.pick((2048, 4), (32, 1))
        self.policy, self.critic = tower(*shape, 1).to(meter.device), tower(*shape, 1).to(meter.device)
        parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=1e-5, fused=meter.gpu)

    def log_prob(self, mean, action):
        return -0.5 * ((action - mean) / 0.3).square()

    @torch.no_grad()
    def collect(self):
        memory = []
        for _ in range(HORIZON):
            obs = self.envs.observe()
            with self.meter.autocast():
                mean, value = self.policy(obs).float(), self.critic(obs).float()
            action = mean + 0.3 * torch.randn_like(mean)
            reward = self.envs.step(action)
            memory.append([obs, action, self.log_prob(mean, action), value, reward])
        advantage = torch.zeros_like(memory[-1][4])
        last = memory[-1][3]
        for moment in reversed(memory):
            value, reward = moment[3], moment[4]
            advantage = reward + 0.99 * last - value + 0.95 * 0.99 * advantage
            last, moment[4] = value, advantage
        return [torch.cat(column) for column in zip(*memory, strict=True)]

    def update(self, obs, action, old, value, advantage):
        with self.meter.autocast():
            mean, now = self.policy(obs).float(), self.critic(obs).float()
        ratio = (self.log_prob(mean, action) - old).exp()
        clipped = ratio.clamp(0.8, 1.2) * advantage
        loss = -torch.min(ratio * advantage, clipped).mean() + 0.5 * (now - value - advantage).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def iterate(self, ticked):
        memory = self.collect()
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(memory[0]), device=self.meter.device).chunk(MINIBATCHES):
                self.update(*(column[rows] for column in memory))
                ticked()


def main():
    meter = Meter(__doc__)
    ppo = PPO(meter)
    meter.calibrate(lambda: ppo.iterate(lambda: None))
    meter.healthy_s /= EPOCHS * MINIBATCHES
    while meter.going_on():
        ppo.iterate(meter.ticked)
    meter.report()


if __name__ == "__main__":
    main()
