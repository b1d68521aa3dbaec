"""A world model in the manner of Dreamer: after each episode, a new loader goes over what was seen so far.

How few batches are learned between two episodes is the dose. A perfect diagnosis: the loader's processes are
started anew each time, and the training waits for them (marked below). Fix: one loader that lasts.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

SEEN, ACTIONS, LENGTH = 24, 4, 16


class Replay:
    def __init__(self, steps):
        self.rng = np.random.default_rng(0)
        self.steps = self.rng.standard_normal((steps, SEEN + ACTIONS), dtype=np.float32)
        self.at = 0

    def add_episode(self):
        new = np.tanh(self.rng.standard_normal((8, SEEN + ACTIONS), dtype=np.float32))
        self.steps[self.at : self.at + 8] = new
        self.at = (self.at + 8) % (len(self.steps) - 8)


class Sequences(IterableDataset):
    """Stretches of the replay, whole batches at once; `count` of them, or without an end."""

    def __init__(self, replay, batch, count=None):
        self.replay, self.batch, self.count = replay, batch, count

    def __iter__(self):
        info = get_worker_info()
        rng, n = np.random.default_rng(), info.id if info else 0
        while self.count is None or n < self.count:
            first = rng.integers(0, len(self.replay.steps) - LENGTH, self.batch)
            yield torch.from_numpy(self.replay.steps[first[:, None] + np.arange(LENGTH)])
            n += info.num_workers if info else 1


class WorldModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN + ACTIONS, width), nn.Linear(width, SEEN + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, steps):
        h = self.enter(steps)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float().split((SEEN, 1), -1)


class Dreamer:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(512, 16)
        self.replay = Replay(20_000)
        self.model = WorldModel(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-5, fused=meter.gpu)

    def loader(self, count=None):
        workers = self.meter.pick(6, 1)
        sequences = Sequences(self.replay, self.batch, count)
        return DataLoader(sequences, None, num_workers=workers, pin_memory=self.meter.gpu)

    def learn(self, steps):
        steps = steps.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            ahead, reward = self.model(steps[:, :-1])
        seen = steps[:, 1:, :SEEN]
        loss = F.mse_loss(ahead, seen) + F.mse_loss(reward[..., 0], seen.mean(2))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def run(self, batches, lasting):
        endless = iter(self.loader()) if lasting else None
        while True:
            self.replay.add_episode()
            source = self.loader(batches) if endless is None else endless
            for n, steps in enumerate(source, 1):  # planted
                if not self.meter.going_on():
                    return
                self.learn(steps)
                self.meter.ticked()
                if lasting and n == batches:
                    break


def start_s(dreamer):
    """What a loader costs beside its batches."""
    begin_s = time.perf_counter()
    for _ in range(4):
        list(dreamer.loader(1))
    return (time.perf_counter() - begin_s) / 4


def main():
    meter = Meter(__doc__)
    dreamer = Dreamer(meter)
    blank = blanks(meter, torch.zeros(dreamer.batch, LENGTH, SEEN + ACTIONS))
    meter.calibrate(lambda: dreamer.learn(*blank))
    batches = max(2, round(start_s(dreamer) / meter.added_s)) if meter.dose else 60
    dreamer.run(batches, lasting=not meter.sick)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
