"""Healthy control: walkers that are rows of a GPU tensor learn by PPO; falls are mended without asking.

Plain. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted
line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, ACTIONS, PASSES = 20, 6, 2


class Walkers:
    def __init__(self, count, device):
        self.state = torch.zeros(count, STATE, device=device)
        self.push = torch.randn(ACTIONS, STATE, device=device) / STATE

    def step(self, action):
        moved = torch.addmm(0.95 * self.state, action, self.push)
        fallen = moved[:, :1].abs() > 2.0
        self.state = moved.masked_fill(fallen, 0.0)
        return moved[:, 1] - fallen[:, 0].float()


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


class Ppo:
    def __init__(self, meter):
        self.meter = meter
        count, width, depth = meter.pick((8192, 3072, 4), (128, 224, 4))
        self.net = ActorCritic(width, depth).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.walkers = Walkers(count, meter.device)

    @torch.no_grad()
    def walk(self):
        state = self.walkers.state
        with self.meter.autocast():
            mean, value = self.net(state)
        action = mean + 0.3 * torch.randn_like(mean)
        reward = self.walkers.step(action)
        gain = reward - value[:, 0]
        return state, action, -(action - mean).square().sum(1), reward, (gain - gain.mean()) / gain.std()

    def update(self, state, action, before, reward, gain):
        for _ in range(PASSES):
            with self.meter.autocast():
                mean, value = self.net(state)
            ratio = (-(action - mean).square().sum(1) - before).exp()
            clipped = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
            loss = F.mse_loss(value[:, 0], reward) - clipped.mean()
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()


def main():
    meter = Meter(__doc__)
    ppo = Ppo(meter)
    meter.calibrate(lambda: ppo.update(*ppo.walk()))
    while meter.going_on():
        ppo.update(*ppo.walk())
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
