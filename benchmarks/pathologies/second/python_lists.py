"""A policy learns from demonstrations kept as Python lists, made into a tensor anew at every step.

A perfect diagnosis: the GPU waits for one slow line of Python in the loop, the one marked below, on one
core. Fix: the demonstrations become one array before the training, and a batch is an index into it.
"""

import itertools
import random

import torch
from meter import Meter
from torch import nn

STATE, ACTION = 32, 8


class Demonstrations:
    def __init__(self, count):
        make = random.Random(0)
        self.states = [[make.gauss(0, 1) for _ in range(STATE)] for _ in range(count)]
        self.actions = [[make.uniform(-1, 1) for _ in range(ACTION)] for _ in range(count)]

    def lists(self, size):
        chosen = random.choices(range(len(self.states)), k=size)
        return [self.states[i] for i in chosen], [self.actions[i] for i in chosen]


class Cloner:
    """Behaviour cloning with an ensemble of one wide policy; `size` rows are repeated to the full batch."""

    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(16384, 256)
        width, depth = meter.pick((4096, 5), (128, 2))
        sizes = [STATE, *[width] * depth]
        hidden = [nn.Sequential(nn.Linear(a, b), nn.ELU()) for a, b in itertools.pairwise(sizes)]
        self.policy = nn.Sequential(*hidden, nn.Linear(width, ACTION)).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), 1e-4, fused=meter.gpu)

    def update(self, states, actions):
        """With noise on the states, as many times as fill the batch."""
        times = -(-self.batch // len(states))
        states = states.repeat(times, 1)[: self.batch] + 0.01 * torch.randn(
            self.batch, STATE, device=states.device
        )
        with self.meter.autocast():
            loss = nn.functional.mse_loss(self.policy(states), actions.repeat(times, 1)[: self.batch])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    demos, cloner = Demonstrations(5000), Cloner(meter)
    states = torch.tensor(demos.states, device=meter.device)
    actions = torch.tensor(demos.actions, device=meter.device)
    meter.calibrate(lambda: cloner.update(states[:1000], actions[:1000]))
    thousand_s = meter.timed_s(lambda: [torch.tensor(rows) for rows in demos.lists(1000)])
    size = max(8, round(1000 * meter.host_s / thousand_s))
    while meter.going_on():
        if meter.sick:
            some_states, some_actions = [
                torch.tensor(r).to(meter.device) for r in demos.lists(size)
            ]  # planted
        else:
            chosen = torch.randint(len(states), (max(size, 1000),), device=meter.device)
            some_states, some_actions = states[chosen], actions[chosen]
        cloner.update(some_states, some_actions)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
