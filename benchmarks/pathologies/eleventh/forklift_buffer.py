"""A forklift learns off-policy; a callback keeps the run safe against power cuts, with the whole replay.

How often it does is the dose. A perfect diagnosis: the training stands still while the replay is written
(the line marked below). Fix: it is written once, at the end.
"""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, LEVERS, DRAWN = 40, 5, 32


class ReplayBuffer:
    def __init__(self, room):
        rng = np.random.default_rng(0)
        self.seen = rng.standard_normal((room, SEEN), dtype=np.float32)
        self.then = 0.9 * self.seen
        self.levers = rng.random((room, LEVERS), dtype=np.float32)
        self.rewards = -np.abs(self.seen[:, 0])
        self.room, self.at, self.rng = room, 0, rng

    def add(self):
        """The forklift moves on by itself."""
        self.at = (self.at + 1) % self.room
        self.seen[self.at] = self.then[self.at - 1]
        self.then[self.at] = 0.95 * self.seen[self.at] + 0.1

    def sample(self):
        rows = self.rng.integers(0, self.room, DRAWN)
        parts = (self.seen[rows], self.levers[rows], self.then[rows], self.rewards[rows, None])
        return torch.from_numpy(np.concatenate(parts, 1))


class SafeCallback:
    """Aside first, so that a power cut leaves the last one whole."""

    def __init__(self, folder, every):
        self.folder, self.every = Path(folder), every

    def save(self, algorithm):
        aside = self.folder / "replay.part"
        with aside.open("wb") as file:
            pickle.dump(algorithm.buffer, file)  # planted
        aside.replace(self.folder / "replay.pkl")

    def on_step_end(self, algorithm, step):
        if step % self.every == 0:
            with algorithm.meter.injecting():
                self.save(algorithm)


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(SEEN + LEVERS, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen, levers):
        h = self.enter(torch.cat([seen, levers], 1))
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.value(h).float()


class OffPolicy:
    def __init__(self, meter):
        self.meter, self.rows, self.at = meter, meter.pick(8192, 128), 0
        self.buffer = ReplayBuffer(meter.pick(80_000, 20_000))
        self.critic = Critic(*meter.pick((4096, 4), (256, 4))).to(meter.device)
        self.actor = nn.Sequential(nn.Linear(SEEN, 256), nn.ReLU(), nn.Linear(256, LEVERS)).to(meter.device)
        weights = [*self.critic.parameters(), *self.actor.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.drawn = torch.randn(self.rows, 2 * SEEN + LEVERS + 1, device=meter.device)

    def train_step(self):
        self.buffer.add()
        fresh = self.buffer.sample()
        fresh = fresh.pin_memory() if self.meter.gpu else fresh
        self.drawn[self.at : self.at + DRAWN].copy_(fresh, non_blocking=True)
        self.at = (self.at + DRAWN) % self.rows
        seen, levers, then, rewards = self.drawn.split((SEEN, LEVERS, SEEN, 1), 1)
        with self.meter.autocast():
            with torch.no_grad():
                ahead = self.critic(then, self.actor(then).tanh())
            value = self.critic(seen, levers)
            wish = self.actor(seen).tanh().float()
        loss = F.mse_loss(value, rewards + 0.98 * ahead) + F.mse_loss(wish, levers)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def learn(self, callbacks):
        while self.meter.going_on():
            self.train_step()
            self.meter.ticked()
            for callback in callbacks:
                callback.on_step_end(self, self.meter.ticks)


def main():
    meter = Meter(__doc__)
    algorithm = OffPolicy(meter)
    meter.calibrate(algorithm.train_step)
    with tempfile.TemporaryDirectory() as folder:
        callback = SafeCallback(folder, every=1_000_000)
        if meter.sick:
            once_s = meter.timed_s(lambda: callback.save(algorithm), calls=10)
            callback.every = max(1, round(once_s / meter.added_s))
        algorithm.learn([callback])
        meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
