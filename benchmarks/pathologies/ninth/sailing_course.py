"""A sailing boat learns to beat against the wind; the training thread sails it itself, wave by wave.

How many waves pass in a step is the dose. A perfect diagnosis: the environment is stepped on the training
thread (at the call or in the loop, both marked below), and the GPU waits. Fix: the waves' sum in closed form
(in life: a process of its own, or a simulator for many boats at once).
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, HELM = 6, 5


class SailingEnv:
    """Reset and step as everywhere; the sea is plain Python."""

    def __init__(self):
        self.waves, self.calm = 1, False
        self.reset()

    def reset(self):
        self.east, self.north, self.heading, self.steps = 0.0, 0.0, 0.7, 0
        return self._seen(0.0)

    def step(self, helm):
        self.heading += 0.1 * (helm - HELM // 2)
        swell = self._mean_swell() if self.calm else self._swell()
        speed = 1.0 + abs(math.sin(self.heading)) + 0.2 * swell
        self.east += 0.1 * speed * math.sin(self.heading)
        self.north += 0.1 * speed * math.cos(self.heading)
        self.steps += 1
        return self._seen(swell), speed * math.cos(self.heading), self.steps >= 200

    def _swell(self):
        height = 0.0
        for wave in range(self.waves):
            height += math.sin(0.3 * wave + self.east) * math.cos(0.2 * wave + self.north)  # planted
        return height / self.waves

    def _mean_swell(self):
        return 0.5 * math.sin(self.east - self.north)

    def _seen(self, swell):
        return [self.east, self.north, self.heading, math.sin(self.heading), swell, 0.01 * self.steps]


class Sailor(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(SEEN, width), nn.Linear(width, HELM)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.value(h).float()


class QLearning:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.net = Sailor(*meter.pick((4096, 5), (192, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.replay = torch.randn(rows, SEEN, device=meter.device)
        self.rewards = torch.randn(rows, device=meter.device)
        self.env, self.at = SailingEnv(), 0
        self.seen = self.env.reset()

    def sail(self):
        self.replay[self.at] = torch.tensor(self.seen, device=self.meter.device)
        with torch.no_grad(), self.meter.autocast():
            helm = self.net(self.replay[self.at : self.at + 1]).argmax().item()
        with self.meter.injecting():
            self.seen, reward, over = self.env.step(helm)  # planted
        self.rewards[self.at].fill_(reward)
        self.at = (self.at + 1) % len(self.rewards)
        if over:
            self.seen = self.env.reset()

    def learn(self):
        with self.meter.autocast():
            value = self.net(self.replay)
        loss = F.smooth_l1_loss(value.amax(1), self.rewards)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def tick(self):
        self.sail()
        self.learn()


def main():
    meter = Meter(__doc__)
    q = QLearning(meter)
    q.env.calm = True
    meter.calibrate(q.tick)
    q.env.calm = not meter.sick
    if meter.dose:
        q.env.waves = 500
        wave_s = meter.timed_s(q.env._swell, calls=5) / 500
        q.env.waves = max(1, round(meter.added_s / wave_s))
    meter.injected_s = 0.0
    while meter.going_on():
        q.tick()
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
