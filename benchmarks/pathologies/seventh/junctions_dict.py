"""Traffic lights that learn together: observations come as a dictionary, and each junction acts for itself.

How many junctions there are is the dose. A perfect diagnosis: an inference for each junction, of a single row
(marked below), where one batch would do. Fix: the rows are stacked.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, PHASES = 8, 4


class Town:
    """Queues at all junctions; a green light lets some of them go."""

    def __init__(self, junctions):
        self.names = [f"junction_{n}" for n in range(junctions)]
        self.rng = np.random.default_rng(0)
        self.queues = self.rng.random((junctions, SEEN), np.float32)

    def observations(self):
        return dict(zip(self.names, self.queues, strict=True))

    def step(self, phases):
        green = np.fromiter((phases[name] for name in self.names), np.int64)
        self.queues += 0.05 * self.rng.random(self.queues.shape, np.float32)
        rows = np.arange(len(green))
        self.queues[rows, green] *= 0.5
        self.queues[rows, green + PHASES] *= 0.5
        return self.observations()


class Lights(nn.Module):
    """The small shared policy."""

    def __init__(self, width):
        super().__init__()
        self.hidden, self.phase = nn.Linear(SEEN, width), nn.Linear(width, PHASES)

    def forward(self, seen):
        return self.phase(torch.tanh(self.hidden(seen)))


class TownCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(SEEN, width), nn.Linear(width, PHASES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.value(h).float()


class Algorithm:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.lights = Lights(meter.pick(256, 32)).to(meter.device)
        self.critic = TownCritic(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.lights.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.seen = torch.rand(self.rows, SEEN, device=meter.device)
        self.at = 0

    @torch.no_grad()
    def compute_actions(self, rows):
        scores = self.lights(torch.from_numpy(rows).to(self.meter.device))
        return (scores + torch.rand_like(scores)).argmax(-1).tolist()

    def compute_single_action(self, row):
        return self.compute_actions(row[None])[0]

    def actions(self, observations, together):
        if together:
            chosen = self.compute_actions(np.stack(list(observations.values())))
            return dict(zip(observations, chosen, strict=True))
        return {name: self.compute_single_action(row) for name, row in observations.items()}  # planted

    def remember(self, observations):
        rows = np.stack(list(observations.values()))[: self.rows - self.at]
        self.seen[self.at : self.at + len(rows)] = torch.from_numpy(rows).to(self.meter.device)
        self.at = (self.at + len(rows)) % self.rows

    def train(self):
        with self.meter.autocast():
            values, scores = self.critic(self.seen), self.lights(self.seen).float()
        wanted = (values.detach() - self.seen[:, :PHASES]).softmax(-1)
        loss = F.cross_entropy(scores, wanted) + F.mse_loss(values, -self.seen[:, PHASES:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    algorithm, town = Algorithm(meter), Town(4)
    few = town.observations()
    meter.calibrate(lambda: (algorithm.actions(few, True), algorithm.remember(few), algorithm.train()))
    junctions = 4
    if meter.dose:
        four_s = meter.timed_s(lambda: algorithm.actions(few, False), calls=60)
        junctions = max(4, round(4 * meter.added_s / four_s))
    town = Town(junctions)
    seen = town.observations()
    while meter.going_on():
        with meter.injecting():
            phases = algorithm.actions(seen, together=not meter.sick)
        algorithm.remember(seen)
        algorithm.train()
        seen = town.step(phases)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
