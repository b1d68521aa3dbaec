"""Two faults: each of many ferries asks the policy for itself, and garbage is collected after some rounds.

Each takes three quarters of a dose. A perfect diagnosis names both: one inference for each ferry, a few small
kernels and a wait (first marked line), and the garbage collector's pauses (second). Fix: one inference for
all ferries, and nobody collects by hand.
"""

import gc
from dataclasses import dataclass, field
from itertools import pairwise

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, COURSES, PART, RARELY = 12, 5, 0.75, 10_000_000


@dataclass
class Harbour:
    """Knows its neighbours, who know it."""

    number: int
    near: list = field(default_factory=list)


def chart(harbours):
    along = [Harbour(number) for number in range(harbours)]
    for one, two in pairwise(along):
        one.near.append(two)
        two.near.append(one)
    return along


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(SEEN, width), nn.Tanh(), nn.Linear(width, COURSES))

    def forward(self, seen):
        return self.layers(seen)


@torch.no_grad()
def one_by_one(policy, water):
    return [policy(seen[None]).argmax().item() for seen in water]  # planted


@torch.no_grad()
def together(policy, water):
    return policy(water).argmax(1).tolist()


class Foresight(nn.Module):
    """What will be seen next, learned beside the policy."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, SEEN)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Company:
    def __init__(self, meter):
        self.meter, self.rows, self.every = meter, meter.pick(8192, 128), RARELY
        self.policy = Policy(meter.pick(256, 48)).to(meter.device)
        self.foresight = Foresight(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.policy.parameters(), *self.foresight.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.past, self.sailing = torch.rand(self.rows, SEEN, device=meter.device), 4
        self.chart = chart(meter.pick(300_000, 30_000))

    def sail(self, courses):
        """All ferries a little further; the water is where the newest rows of the past are."""
        course = torch.tensor(courses, dtype=torch.float32)
        course = course.pin_memory() if self.meter.gpu else course
        course = course.to(self.meter.device, non_blocking=True)
        water = self.past[: len(courses)]
        self.past = torch.cat([self.past[len(courses) :], 0.9 * water + 0.02 * course[:, None]])

    def learn(self):
        with self.meter.autocast():
            ahead, wish = self.foresight(self.past[:-1]), self.policy(self.past[:512]).float()
        loss = F.mse_loss(ahead, self.past[1:]) + 0.01 * wish.logsumexp(1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def round(self, ask):
        with self.meter.injecting():
            courses = ask(self.policy, self.past[: self.sailing])
        self.sail(courses)
        self.learn()

    def tidy(self):
        gc.collect()  # planted

    def run(self, ask):
        while self.meter.going_on():
            self.round(ask)
            self.meter.ticked()
            if self.meter.ticks % self.every == 0:
                with self.meter.injecting():
                    self.tidy()


def main():
    meter = Meter(__doc__)
    company = Company(meter)
    meter.calibrate(lambda: company.round(together))
    part_s = PART * meter.added_s
    if meter.dose:
        water = company.past[:16]
        each_s = meter.timed_s(lambda: one_by_one(company.policy, water), calls=20) / 16
        company.sailing = min(company.rows - 1, max(4, round(part_s / each_s)))
    if meter.sick:
        company.every = max(1, round(meter.timed_s(company.tidy) / part_s))
    meter.injected_s = 0.0
    company.run(one_by_one if meter.sick else together)
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
