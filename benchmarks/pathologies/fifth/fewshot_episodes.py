"""Prototypical networks: a generator makes the episodes of each round, with a loader of its own.

How few episodes a round has is the dose. A perfect diagnosis: at the beginning of each round the training
waits for worker processes to start (marked below). Fix: one loader, whose workers stay.
"""

import time
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

WAYS, FEATURES = 16, 256


class Episodes(Dataset):
    """An episode is support and query of some classes, drawn from a bank of features."""

    def __init__(self, count: int, shots: int):
        self.count, self.shots = count, shots
        self.bank = np.random.default_rng(0).standard_normal((256, FEATURES), dtype=np.float32)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int):
        rng = np.random.default_rng(number)
        ways = self.bank[rng.permutation(256)[:WAYS], None]
        noise = rng.standard_normal((WAYS, 2 * self.shots, 1), dtype=np.float32)
        return torch.from_numpy(ways * (1 + 0.1 * noise))


class Embedding(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.enter = nn.Linear(FEATURES, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        h = self.enter(x)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return h


class MetaLearner:
    def __init__(self, meter: Meter):
        self.meter, self.shots = meter, meter.pick(256, 8)
        self.net = Embedding(*meter.pick((4096, 6), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.way = torch.arange(WAYS, device=meter.device).repeat_interleave(self.shots)

    def learn(self, episode):
        episode = episode.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            support, query = self.net(episode).split(self.shots, 1)
            prototype = support.mean(1)
            near = 2 * query.flatten(0, 1) @ prototype.T - prototype.square().sum(1)
        loss = F.cross_entropy(near.float() / 64, self.way)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def loader(self, count: int, keep: bool = False) -> DataLoader:
        return DataLoader(
            Episodes(count, self.shots),
            batch_size=None,
            num_workers=self.meter.pick(6, 1),
            pin_memory=self.meter.gpu,
            persistent_workers=keep,
        )


def rounds_afresh(learner: MetaLearner, count: int) -> Iterator[torch.Tensor]:
    while True:
        yield from learner.loader(count)  # planted


def rounds_kept(learner: MetaLearner, count: int) -> Iterator[torch.Tensor]:
    loader = learner.loader(count, keep=True)
    while True:
        yield from loader


def starting_s(learner: MetaLearner) -> float:
    begin_s = time.perf_counter()
    for _ in range(3):
        list(learner.loader(1))
    return (time.perf_counter() - begin_s) / 3


def main():
    meter = Meter(__doc__)
    learner = MetaLearner(meter)
    (blank,) = blanks(meter, torch.randn(WAYS, 2 * learner.shots, FEATURES))
    meter.calibrate(lambda: learner.learn(blank))
    count = max(2, round(starting_s(learner) / meter.added_s)) if meter.dose else 300
    episodes = (rounds_afresh if meter.sick else rounds_kept)(learner, count)
    while meter.going_on():
        learner.learn(next(episodes))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
