"""Healthy control: buoys in waves learn to keep their place; each is stepped by the training thread.

Tempting: environments in plain Python, one after another; but they are few, and steered by what was decided
a few steps ago, so that they are stepped while the GPU learns. A perfect diagnosis: healthy, nothing to
mend. The dose is taken and does nothing; there is no planted line.
"""

import math
from collections import deque

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, LATE = 3, 3


class BuoyEnv:
    def __init__(self, number):
        self.place, self.speed, self.wave = 0.0, 0.0, 0.3 * number

    def step(self, thrust):
        self.wave += 0.05
        self.speed = 0.95 * self.speed + 0.05 * (math.tanh(thrust) + 0.3 * math.sin(self.wave))
        self.place += 0.1 * self.speed
        return [self.place, self.speed, math.cos(self.wave), -abs(self.place)]


class Pilots:
    """Decisions come back through pinned memory, some steps later."""

    def __init__(self, meter, buoys):
        self.meter, self.net = meter, nn.Sequential(nn.Linear(SEEN, 64), nn.Tanh(), nn.Linear(64, 1))
        self.net.to(meter.device)
        self.decided = deque()
        self.free = [torch.zeros(buoys, pin_memory=meter.gpu) for _ in range(LATE + 1)]

    @torch.no_grad()
    def decide(self, seen):
        thrust, came = self.free.pop(), None
        thrust.copy_(self.net(seen)[:, 0], non_blocking=True)
        if self.meter.gpu:
            came = torch.cuda.Event()
            came.record()
        self.decided.append((thrust, came))

    def next_thrust(self):
        if len(self.decided) < LATE:
            return None
        thrust, came = self.decided.popleft()
        if came is not None:
            came.synchronize()
        self.free.append(thrust)
        return thrust.tolist()


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.worth = nn.Linear(SEEN, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.worth(h).float()


class Sea:
    def __init__(self, meter):
        self.meter, (count, self.rows) = meter, meter.pick((96, 8192), (8, 160))
        self.buoys, self.pilots = [BuoyEnv(number) for number in range(count)], Pilots(meter, count)
        self.critic = Critic(*meter.pick((4096, 5), (288, 4))).to(meter.device)
        weights = [*self.critic.parameters(), *self.pilots.net.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN + 1, device=meter.device)

    def sail(self):
        thrust = self.pilots.next_thrust() or [0.0] * len(self.buoys)
        new = torch.tensor([buoy.step(one) for buoy, one in zip(self.buoys, thrust, strict=True)])
        new = (new.pin_memory() if self.meter.gpu else new).to(self.meter.device, non_blocking=True)
        self.past = torch.cat([self.past[len(new) :], new])
        self.pilots.decide(new[:, :SEEN])

    def step(self):
        self.sail()
        seen, reward = self.past.split((SEEN, 1), 1)
        with self.meter.autocast():
            worth = self.critic(seen)
        wish = self.pilots.net(seen[-512:]).square().mean()
        loss = F.mse_loss(worth, reward) + 0.01 * wish
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    sea = Sea(meter)
    meter.calibrate(sea.step)
    while meter.going_on():
        sea.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
