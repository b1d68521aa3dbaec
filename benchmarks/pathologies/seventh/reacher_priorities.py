"""Off-policy learning of a reaching arm, from a replay that prefers transitions with a large reward.

How many transitions there are is the dose. A perfect diagnosis: a hot line of Python, `random.choices`, which
adds up all weights again whenever it is called (marked below). Fix: the sums are kept, NumPy looks in them.
"""

import random
from collections import deque
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

JOINTS, SEEN = 4, 14


class PrioritizedReplay:
    def __init__(self, room, alpha=0.6):
        rng = np.random.default_rng(0)
        self.steps = rng.standard_normal((room, 2 * SEEN + JOINTS), dtype=np.float32)
        self.rewards = rng.random(room, dtype=np.float32)
        self.weights = deque(((self.rewards + 0.01) ** alpha).tolist(), maxlen=room)
        self.seed = random.Random(0)

    def draw(self, count):
        return self.seed.choices(range(len(self.weights)), self.weights, k=count)  # planted

    def sample(self, count):
        rows = np.array(self.draw(count))
        return self.steps[rows], self.rewards[rows]


class SummedReplay(PrioritizedReplay):
    """The arm is at rest while it learns: sums are made once."""

    def __init__(self, room):
        super().__init__(room)
        self.sums = np.cumsum(np.fromiter(islice(self.weights, None), np.float64))

    def draw(self, count):
        points = [self.seed.random() * self.sums[-1] for _ in range(count)]
        return np.searchsorted(self.sums, points)


def mlp(inputs, width, depth, outputs):
    layers = [nn.Linear(inputs, width), nn.ELU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ELU()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class DDPG:
    """An actor, and a large critic."""

    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        critic, actor = meter.pick((4096, 3), (320, 3)), meter.pick((1024, 2), (64, 1))
        self.critic = mlp(SEEN + JOINTS, *critic, 1).to(meter.device)
        self.actor = mlp(SEEN, *actor, JOINTS).to(meter.device)
        weights = [*self.critic.parameters(), *self.actor.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.steps = torch.zeros(self.rows, 2 * SEEN + JOINTS, device=meter.device)
        self.rewards = torch.zeros(self.rows, device=meter.device)
        self.drawn = meter.pick(256, 32)

    def value(self, seen, moved):
        return self.critic(torch.cat([seen, moved], 1))[:, 0].float()

    def receive(self, steps, rewards):
        """The newly drawn take the places of the longest used."""
        fresh = torch.from_numpy(np.column_stack([steps, rewards]))
        fresh = (fresh.pin_memory() if self.meter.gpu else fresh).to(self.meter.device, non_blocking=True)
        self.steps = torch.cat([self.steps[len(fresh) :], fresh[:, :-1]])
        self.rewards = torch.cat([self.rewards[len(fresh) :], fresh[:, -1]])

    def update(self):
        seen, moved, then = self.steps.split((SEEN, JOINTS, SEEN), 1)
        with self.meter.autocast():
            with torch.no_grad():
                target = self.rewards + 0.95 * self.value(then, self.actor(then))
            off = F.mse_loss(self.value(seen, moved), target)
            gain = -self.value(seen, self.actor(seen)).mean()
        self.optimizer.zero_grad(set_to_none=True)
        (off + gain).backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    agent, small = DDPG(meter), SummedReplay(2000)

    def calm():
        agent.receive(*small.sample(agent.drawn))
        agent.update()

    meter.calibrate(calm)
    room = 2000
    if meter.dose:
        probe = PrioritizedReplay(50_000)
        each_s = meter.timed_s(lambda: probe.draw(agent.drawn), calls=5) / 50_000
        room = max(2000, round(meter.host_s / each_s))
    replay = (PrioritizedReplay if meter.sick else SummedReplay)(room)
    while meter.going_on():
        with meter.injecting():
            drawn = replay.sample(agent.drawn)
        agent.receive(*drawn)
        agent.update()
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
