"""PPO with a recurrent policy: every fish has a memory of its own, and so each is asked for its move alone.

How many fish there are is the dose. A perfect diagnosis: an inference of one row for each of them (marked
below), where one batch would do. Fix: the memories are rows of one tensor.
"""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, TURNS, STEPS = 6, 5, 16


@dataclass
class Fish:
    phase: float
    speed: float = 0.5
    depth: float = 0.0
    path: list = field(default_factory=lambda: [0.0] * 3)

    def senses(self):
        return [math.sin(self.phase), self.speed, self.depth, *self.path]

    def swim(self, turn):
        self.phase = (self.phase + 0.1 * (turn - 2) + 0.05) % 6.2832
        self.depth = 0.98 * self.depth + 0.02 * math.cos(self.phase)
        self.path = [self.depth, *self.path[:2]]
        return 1.0 - abs(self.depth)


class Memory(nn.Module):
    """The small net that swims."""

    def __init__(self, size):
        super().__init__()
        self.size, self.cell = size, nn.GRUCell(SEEN, size)
        self.turn, self.value = nn.Linear(size, TURNS), nn.Linear(size, 1)

    def forward(self, senses, memory):
        memory = self.cell(senses, memory)
        return self.turn(memory), self.value(memory), memory


class Critic(nn.Module):
    """The large one that only learns: it sees a whole stretch of swimming."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(SEEN * STEPS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.value = nn.Linear(width, STEPS)

    def forward(self, stretch):
        h = F.elu(self.enter(stretch.flatten(1)))
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.value(h).float()


class School:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.policy = Memory(meter.pick(256, 32)).to(meter.device)
        self.critic = Critic(*meter.pick((4096, 5), (192, 3))).to(meter.device)
        weights = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.stretch = torch.randn(rows, STEPS, SEEN, device=meter.device)
        self.turns = torch.randint(TURNS, (rows,), device=meter.device)
        self.rewards = torch.zeros(rows, STEPS, device=meter.device)
        self.step_number = 0

    def fill(self, count):
        self.fish = [Fish(0.1 * n) for n in range(count)]
        self.memories = torch.zeros(count, self.policy.size, device=self.meter.device)

    @torch.no_grad()
    def decide(self, senses, memory):
        logits, _, memory = self.policy(torch.tensor(senses).to(self.meter.device), memory)
        return torch.distributions.Categorical(logits=logits, validate_args=False).sample().tolist(), memory

    def swim(self, one_by_one):
        senses = [fish.senses() for fish in self.fish]
        if one_by_one:
            turns = []
            for n, sensed in enumerate(senses):
                (turn,), self.memories[n] = self.decide([sensed], self.memories[n : n + 1])  # planted
                turns.append(turn)
        else:
            turns, self.memories = self.decide(senses, self.memories)
        rewards = [fish.swim(turn) for fish, turn in zip(self.fish, turns, strict=True)]
        at, count = self.step_number % STEPS, min(len(senses), len(self.stretch))
        self.stretch[:count, at] = torch.tensor(senses[:count]).to(self.meter.device)
        self.rewards[:count, at] = torch.tensor(rewards[:count]).to(self.meter.device)
        self.step_number += 1

    def update(self):
        with self.meter.autocast():
            values = self.critic(self.stretch)
        memory = torch.zeros(len(self.stretch), self.policy.size, device=self.meter.device)
        logits, _, _ = self.policy(self.stretch[:, -1], memory)
        gain = self.rewards - values
        likely = logits.log_softmax(-1).gather(1, self.turns[:, None])
        ratio = (likely - likely.detach()).exp()
        edge = gain[:, -1:].detach()
        loss = gain.square().mean() - torch.min(ratio * edge, ratio.clamp(0.8, 1.2) * edge).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    school = School(meter)
    school.fill(4)
    meter.calibrate(lambda: (school.swim(one_by_one=False), school.update()))
    memory, one = school.memories[:1], [Fish(0.0).senses()]
    one_s = meter.timed_s(lambda: school.decide(one, memory), calls=30)
    school.fill(max(4, round(meter.added_s / one_s)))
    while meter.going_on():
        school.swim(one_by_one=meter.sick)
        school.update()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
