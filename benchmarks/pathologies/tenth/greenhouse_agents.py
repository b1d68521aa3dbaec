"""Greenhouses that learn to air and to heat; each has an agent object, which asks the policy for itself.

How many greenhouses there are is the dose. A perfect diagnosis: one inference for each environment, each a
few small kernels and a wait (marked below). Fix: all of them in one batch.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, VENTS = 10, 6


class Greenhouse:
    def __init__(self, number):
        self.rng = np.random.default_rng(number)
        self.climate = self.rng.random(SEEN, dtype=np.float32)

    def step(self, vent):
        self.climate[vent] *= 0.95
        self.climate[-1] = 1.0 - self.climate[0]


class Agent:
    """Lives in one greenhouse; all agents share the policy."""

    def __init__(self, policy, device):
        self.policy, self.device = policy, device

    @torch.no_grad()
    def act(self, climate):
        scores = self.policy(torch.as_tensor(climate[None]).to(self.device))
        return torch.multinomial(scores.softmax(1), 1).item()  # planted


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden, self.vent = nn.Linear(SEEN, width), nn.Linear(width, VENTS)

    def forward(self, climate):
        return self.vent(F.relu(self.hidden(climate)))


class ClimateModel(nn.Module):
    """What the weather will do; it is what the GPU is for."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, SEEN)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, climate):
        h = self.enter(climate)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class Nursery:
    def __init__(self, meter):
        self.meter, self.rows, self.at = meter, meter.pick(8192, 128), 0
        self.policy = Policy(meter.pick(512, 64)).to(meter.device)
        self.model = ClimateModel(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.policy.parameters(), *self.model.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.climates = torch.rand(self.rows, SEEN, device=meter.device)
        self.houses, self.agents = [], []
        self.build(4)

    def build(self, count):
        self.houses = [Greenhouse(n) for n in range(count)]
        self.agents = [Agent(self.policy, self.meter.device) for _ in range(count)]

    def each_by_itself(self):
        return [agent.act(house.climate) for agent, house in zip(self.agents, self.houses, strict=True)]

    @torch.no_grad()
    def in_one_batch(self):
        climates = torch.from_numpy(np.stack([house.climate for house in self.houses]))
        scores = self.policy(climates.to(self.meter.device))
        return torch.multinomial(scores.softmax(1), 1)[:, 0].tolist()

    def live(self, decide):
        with self.meter.injecting():
            vents = decide()
        for house, vent in zip(self.houses, vents, strict=True):
            house.step(vent)
        new = torch.from_numpy(np.stack([house.climate for house in self.houses]))[: self.rows - self.at]
        self.climates[self.at : self.at + len(new)] = new.to(self.meter.device)
        self.at = (self.at + len(new)) % self.rows

    def learn(self):
        with self.meter.autocast():
            ahead, scores = self.model(self.climates), self.policy(self.climates).float()
        loss = F.mse_loss(ahead, self.climates.roll(-1, 0)) + 0.01 * scores.logsumexp(1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    nursery = Nursery(meter)
    meter.calibrate(lambda: (nursery.live(nursery.in_one_batch), nursery.learn()))
    if meter.dose:
        each_s = meter.timed_s(nursery.each_by_itself, calls=60) / 4
        nursery.build(max(4, round(meter.added_s / each_s)))
    decide = nursery.each_by_itself if meter.sick else nursery.in_one_batch
    meter.injected_s = 0.0
    while meter.going_on():
        nursery.live(decide)
        nursery.learn()
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
