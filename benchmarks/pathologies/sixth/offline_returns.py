"""Offline reinforcement learning by a decision transformer; what is still to come is added up when sampled.

How many episodes are sampled in a step is the dose. A perfect diagnosis: the replay is sampled on the CPU,
with a sum in Python for each episode (marked below). Fix: the sums are made once, before the training.
"""

import random
from dataclasses import dataclass, field
from itertools import accumulate

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, ACTION, LENGTH, CONTEXT = 12, 3, 200, 8


@dataclass
class Episode:
    states: torch.Tensor
    actions: torch.Tensor
    rewards: list
    sums: torch.Tensor = field(default=None)

    def to_come(self):
        back = list(accumulate(reversed(self.rewards), lambda later, now: now + 0.99 * later))  # planted
        return torch.tensor(back[::-1])

    def remembered(self):
        if self.sums is None:
            self.sums = self.to_come()
        return self.sums


class Logged:
    def __init__(self, episodes=100):
        rng = random.Random(0)
        self.episodes = [
            Episode(
                torch.randn(LENGTH, STATE),
                torch.rand(LENGTH, ACTION),
                [rng.random() for _ in range(LENGTH)],
            )
            for _ in range(episodes)
        ]

    def sample(self, count, method):
        columns = [], [], []
        for episode in random.choices(self.episodes, k=count):
            start = random.randrange(LENGTH - CONTEXT)
            part = slice(start, start + CONTEXT)
            for column, whole in zip(
                columns, (method(episode), episode.states, episode.actions), strict=True
            ):
                column.append(whole[part])
        return [torch.stack(column) for column in columns]


class DecisionTransformer(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.enter = nn.Linear(1 + STATE, dim)
        self.place = nn.Parameter(torch.zeros(CONTEXT, dim))
        make = nn.TransformerEncoderLayer
        heads = max(2, dim // 64)
        self.layers = nn.ModuleList(
            make(dim, heads, 4 * dim, 0.0, "gelu", batch_first=True) for _ in range(depth)
        )
        self.action = nn.Linear(dim, ACTION)

    def forward(self, to_come, states):
        h = self.enter(torch.cat([to_come[..., None], states], -1)) + self.place
        for layer in self.layers:
            h = layer(h)
        return self.action(h).float().sigmoid()


def main():
    meter = Meter(__doc__)
    rows = meter.pick(1024, 16)
    net = DecisionTransformer(*meter.pick((1536, 5), (192, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    logged = Logged()
    batch = [torch.randn(rows, CONTEXT, *size, device=meter.device) for size in ((), (STATE,), (ACTION,))]

    def imitate(new):
        for kept, part in zip(batch, new, strict=True):
            part = part[:rows].pin_memory() if meter.gpu else part[:rows]
            kept[: len(part)].copy_(part, non_blocking=True)
        with meter.autocast():
            moves = net(batch[0], batch[1])
        loss = F.mse_loss(moves, batch[2])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    few = meter.pick(64, 4)
    for episode in logged.episodes:
        episode.remembered()
    meter.calibrate(lambda: imitate(logged.sample(few, Episode.remembered)))
    episode_s = meter.timed_s(lambda: logged.sample(100, Episode.to_come), calls=6) / 100
    count = max(few, round(meter.host_s / episode_s))
    method = Episode.to_come if meter.sick else Episode.remembered
    while meter.going_on():
        with meter.injecting():
            sampled = logged.sample(count, method)
        imitate(sampled)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
