"""An IMPALA-like learner with drivers on a race track, each of which asks the policy for its own steering.

How many drivers there are is the dose. A perfect diagnosis: one inference of a single row for each driver
(marked below), where one batch would do. Fix: the rows of all drivers at once.
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, STEER = 5, 3


class Driver:
    def __init__(self, number):
        self.angle, self.off, self.speed = 0.1 * number, 0.0, 1.0

    def looks(self):
        return [math.sin(self.angle), math.cos(self.angle), self.off, self.speed, 1.0]

    def drive(self, steer):
        self.off = 0.95 * self.off + 0.05 * (steer - 1)
        self.speed = min(2.0, self.speed + 0.01 - 0.05 * abs(self.off))
        self.angle = (self.angle + 0.02 * self.speed) % 6.2832
        return self.speed - abs(self.off)


class Policy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(SEEN, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.steer, self.value = nn.Linear(width, STEER), nn.Linear(width, 1)

    def forward(self, seen):
        h = F.silu(self.enter(seen))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.steer(h).float(), self.value(h).float()


class Impala:
    """A large learner, and the smaller policy the drivers use, which is distilled from it."""

    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 256)
        self.learner = Policy(*meter.pick((4096, 5), (192, 3))).to(meter.device)
        self.actor = Policy(*meter.pick((512, 3), (32, 1))).to(meter.device)
        weights = [*self.learner.parameters(), *self.actor.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.seen = torch.randn(rows, SEEN, device=meter.device)
        self.steered = torch.randint(STEER, (rows,), device=meter.device)
        self.behaviour = torch.full((rows,), -1.1, device=meter.device)
        self.returns = torch.randn(rows, device=meter.device)

    @torch.no_grad()
    def steer(self, looks):
        logits, _ = self.actor(torch.tensor(looks).to(self.meter.device))
        return logits.softmax(-1).multinomial(1)[:, 0].tolist()

    def alone(self, looks):
        return [self.steer([look])[0] for look in looks]  # planted

    def remember(self, looks, rewards):
        count = min(len(looks), len(self.seen))
        self.seen[:count] = torch.tensor(looks[:count]).to(self.meter.device)
        self.returns[:count] = torch.tensor(rewards[:count]).to(self.meter.device)

    def learn(self):
        with self.meter.autocast():
            logits, value = self.learner(self.seen)
            copied, _ = self.actor(self.seen)
        taken = logits.log_softmax(-1).gather(1, self.steered[:, None])[:, 0]
        rho = (taken.detach() - self.behaviour).exp().clamp(max=1)
        gain = self.returns - value[:, 0]
        loss = -(rho * taken * gain.detach()).mean() + 0.5 * (rho * gain.square()).mean()
        loss = loss + F.cross_entropy(copied, logits.detach().softmax(-1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    impala = Impala(meter)
    one = Driver(0)
    meter.calibrate(lambda: (impala.steer([one.looks()]), impala.learn()))
    alone_s = meter.timed_s(lambda: impala.steer([one.looks()]), calls=20)
    drivers = [Driver(n) for n in range(max(4, round(meter.added_s / alone_s)))]
    while meter.going_on():
        looks = [driver.looks() for driver in drivers]
        steering = impala.alone(looks) if meter.sick else impala.steer(looks)
        rewards = [driver.drive(steer) for driver, steer in zip(drivers, steering, strict=True)]
        impala.remember(looks, rewards)
        impala.learn()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
