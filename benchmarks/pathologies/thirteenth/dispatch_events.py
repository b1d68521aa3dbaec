"""Ambulances of many towns learn where to wait; each town is an environment with a clock of its own.

What happens next, in whatever town, is taken from a heap, and the policy is asked for that town. How many
events there are to a step is the dose. A perfect diagnosis: one inference for each environment, a few small
kernels and a wait (marked below). Fix: all towns where something is due are asked for at once.
"""

import heapq
import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, POSTS = 8, 6


class Town:
    """How busy each quarter is; whoever waits there makes it a little less so."""

    def __init__(self, number):
        self.rng, self.clock = random.Random(number), 0.0
        self.busy = [self.rng.random() for _ in range(SEEN)]

    def wait_at(self, post):
        self.busy[post] *= 0.9
        self.busy[-1] = self.rng.random()
        self.clock += self.rng.expovariate(1.0)


class Region:
    def __init__(self, towns):
        self.towns = [Town(number) for number in range(towns)]
        self.due = [(0.0, number) for number in range(towns)]
        self.posts = []

    def pop(self):
        return heapq.heappop(self.due)[1]

    def go_on(self, number, post):
        self.towns[number].wait_at(post)
        heapq.heappush(self.due, (self.towns[number].clock, number))
        self.posts.append((self.towns[number].busy[0], post))


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(SEEN, width), nn.ReLU(), nn.Linear(width, POSTS))

    def forward(self, busy):
        return self.layers(busy)


@torch.no_grad()
def one_by_one(region, policy, device, events):
    for _ in range(events):
        number = region.pop()
        busy = torch.tensor(region.towns[number].busy, device=device)
        region.go_on(number, policy(busy[None]).argmax(1).item())  # planted


@torch.no_grad()
def all_due(region, policy, device, events):
    while events > 0:
        numbers = [region.pop() for _ in range(min(events, len(region.towns)))]
        busy = torch.tensor([region.towns[number].busy for number in numbers]).to(device)
        for number, post in zip(numbers, policy(busy).argmax(1).tolist(), strict=True):
            region.go_on(number, post)
        events -= len(numbers)


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.worth = nn.Linear(SEEN, width), nn.Linear(width, POSTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, busy):
        h = self.enter(busy)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.worth(h).float()


class Learner:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 160)
        self.policy = Policy(meter.pick(256, 32)).to(meter.device)
        self.critic = Critic(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN, device=meter.device)
        self.post = torch.randint(POSTS, (self.rows, 1), device=meter.device)

    def learn(self, region):
        new = torch.tensor(region.posts[-64:]).to(self.meter.device)
        region.posts.clear()
        self.past[: len(new), 0] = new[:, 0]
        self.post[: len(new), 0] = new[:, 1].long()
        with self.meter.autocast():
            worth, wish = self.critic(self.past), self.policy(self.past).float()
        reached = F.mse_loss(worth.gather(1, self.post)[:, 0], 1 - self.past.mean(1))
        loss = reached - (wish.softmax(1) * worth.detach()).sum(1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def tick(self, region, serve, events):
        with self.meter.injecting():
            serve(region, self.policy, self.meter.device, events)
        self.learn(region)


def main():
    meter = Meter(__doc__)
    learner, region, events = Learner(meter), Region(512), 4
    meter.calibrate(lambda: learner.tick(region, all_due, 4))
    if meter.dose:
        ask = (region, learner.policy, meter.device, 20)
        each_s = meter.timed_s(lambda: one_by_one(*ask), calls=20) / 20
        events = max(4, round(meter.added_s / each_s))
    region.posts.clear()
    meter.injected_s = 0.0
    while meter.going_on():
        learner.tick(region, one_by_one if meter.sick else all_due, events)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
