"""Two faults: bees ask their policy one by one, and garbage is collected after each short flight.

Each takes three quarters of a dose. A perfect diagnosis names both: an inference for each agent (first
marked line), and pauses of the garbage collector (second). Fix: one inference for all bees; garbage is
left to Python.
"""

import gc
import random

import numpy as np
import torch
from stopwatch import Meter, amount_taking
from torch import nn

PART, SEEN, TURNS, LEARNT, RARELY = 0.75, 5, 4, 320, 5000


class Flower:
    def __init__(self, rng, meadow):
        self.place, self.nectar, self.meadow = (rng.random(), rng.random()), rng.random(), meadow


class Meadow:
    """Parallel agents by name: a dict of what each sees in, a dict of turns out."""

    def __init__(self, bees, flowers):
        rng = random.Random(8)
        self.flowers = []
        self.flowers += [Flower(rng, self) for _ in range(flowers)]
        self.bees = {
            f"bee_{number}": np.array([0.5, 0.5, rng.random() * 6], np.float32) for number in range(bees)
        }

    def observe(self, name):
        x, y, angle = self.bees[name]
        flower = self.flowers[int(997 * (x + y)) % len(self.flowers)]
        return np.array([x, y, np.sin(angle), np.cos(angle), flower.nectar], np.float32)

    def fly(self, turns):
        for name, turn in turns.items():
            x, y, angle = self.bees[name]
            angle = (angle + 0.3 * (turn - 1.5)) % 6.2832
            x, y = (x + 0.01 * np.cos(angle)) % 1, (y + 0.01 * np.sin(angle)) % 1
            self.bees[name] = np.array([x, y, angle], np.float32)


class BeePolicy(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SEEN, hidden), nn.ReLU6(), nn.Linear(hidden, hidden), nn.ReLU6())
        self.turn = nn.Linear(hidden, TURNS)

    def forward(self, seen):
        return self.turn(self.body(seen))


@torch.no_grad()
def each_asks(policy, seen, device):
    turns = {}
    for name, view in seen.items():
        logits = policy(torch.from_numpy(view).to(device).unsqueeze(0))  # planted
        turns[name] = int(logits.argmax())
    return turns


@torch.no_grad()
def all_ask(policy, seen, device):
    views = torch.from_numpy(np.stack(list(seen.values()))).to(device)
    return dict(zip(seen, policy(views).argmax(1).tolist(), strict=True))


class QLearning:
    def __init__(self, device):
        self.device, self.policy = device, BeePolicy().to(device)
        self.critic = nn.Sequential(
            nn.Linear(SEEN, 640), nn.CELU(), nn.Linear(640, 640), nn.CELU(), nn.Linear(640, 1)
        )
        self.critic.to(device)
        params = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.NAdam(params, lr=1e-4)
        self.past = torch.rand(LEARNT, SEEN)

    def learn(self, seen):
        new = torch.from_numpy(np.stack(list(seen.values())))
        self.past = torch.cat([self.past, new])[-LEARNT:]
        past = self.past.to(self.device)
        worth = self.critic(past)[:, 0]
        best = self.policy(past).amax(1)
        target = past[:, 4] + 0.9 * worth.roll(-1).detach()
        loss = (worth - target).square().mean() + (best - worth.detach()).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    meter, bees, flight = Meter(__doc__), 4, RARELY
    learning, meadow = QLearning(meter.device), Meadow(bees, 50_000)
    ask = all_ask

    def view():
        return {name: meadow.observe(name) for name in meadow.bees}

    meter.calibrate(lambda: learning.learn(view()))
    part_s = PART * meter.added_s
    if meter.dose:
        views = {f"bee_{number}": np.zeros(SEEN, np.float32) for number in range(50)}
        asking = lambda few: lambda: each_asks(learning.policy, dict([*views.items()][:few]), meter.device)  # noqa: E731
        bees = amount_taking(meter, asking, 2, 42, part_s)
        meadow = Meadow(bees, 50_000)
    if meter.sick:
        ask, flight = each_asks, max(1, round(meter.timed_s(gc.collect) / part_s))
    while meter.going_on():
        seen = view()
        with meter.injecting():
            turns = ask(learning.policy, seen, meter.device)
        meadow.fly(turns)
        learning.learn(seen)
        meter.ticked()
        if meter.ticks % flight == 0:
            with meter.injecting():
                gc.collect()  # planted
    meter.report()


if __name__ == "__main__":
    main()
