"""A world model of a drifting boat, and a policy that learns in what it imagines; a thread saves both.

A thread was meant to write in the background, but the loop waits for it; the average of the weights and
the episodes are written as well. How often is the dose. A perfect diagnosis: saving stops the training
(any line marked below). Fix: every few thousand steps, and nobody waits.
"""

import copy
import os
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, ACT, STATE, NOISE, LENGTH, BATCH, HORIZON, EPISODES = 8, 2, 64, 16, 6, 24, 4, 40


class Episodes:
    """Lists of dictionaries, as they come from a boat."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.rng = rng
        self.items = [
            [{"seen": rng.normal(size=SEEN), "act": rng.normal(size=ACT)} for _ in range(60)]
            for _ in range(EPISODES)
        ]
        self.seen = np.array([[row["seen"] for row in item] for item in self.items], np.float32)
        self.act = np.array([[row["act"] for row in item] for item in self.items], np.float32)

    def sample(self):
        which, begin = self.rng.integers(0, EPISODES, BATCH), self.rng.integers(0, 60 - LENGTH, BATCH)
        columns = begin[:, None] + np.arange(LENGTH)
        return [torch.from_numpy(part[which[:, None], columns]) for part in (self.seen, self.act)]


class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.enter = nn.GRUCell(STATE, STATE), nn.Linear(NOISE + ACT, STATE)
        self.prior, self.post = nn.Linear(STATE, 2 * NOISE), nn.Linear(STATE + SEEN, 2 * NOISE)
        self.decode = nn.Sequential(nn.Linear(STATE + NOISE, 96), nn.ELU(), nn.Linear(96, SEEN + 1))

    @staticmethod
    def draw(stats):
        mean, spread = stats.chunk(2, 1)
        return mean + F.softplus(spread) * torch.randn_like(mean)

    def observe(self, seen, act):
        state, noise = seen.new_zeros(len(seen), STATE), seen.new_zeros(len(seen), NOISE)
        states, loss = [], 0
        for t in range(LENGTH):
            state = self.cell(self.enter(torch.cat([noise, act[:, t]], 1)), state)
            prior, post = self.prior(state), self.post(torch.cat([state, seen[:, t]], 1))
            noise = self.draw(post)
            guess = self.decode(torch.cat([state, noise], 1))
            loss = loss + F.mse_loss(guess[:, :SEEN], seen[:, t]) + 0.1 * F.mse_loss(prior, post)
            states.append((state, noise))
        return loss / LENGTH, states

    def imagine(self, state, noise, actor):
        reward = 0
        for _ in range(HORIZON):
            act = actor(torch.cat([state, noise], 1)).tanh()
            state = self.cell(self.enter(torch.cat([noise, act], 1)), state)
            noise = self.draw(self.prior(state))
            reward = reward + self.decode(torch.cat([state, noise], 1))[:, -1]
        return reward.mean()


class Dreamer:
    def __init__(self, device):
        self.device, self.world = device, WorldModel().to(device)
        self.actor = nn.Sequential(nn.Linear(STATE + NOISE, 96), nn.ELU(), nn.Linear(96, ACT)).to(device)
        self.world_optimizer = torch.optim.Adam(self.world.parameters(), lr=6e-4)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=8e-5)
        self.average = copy.deepcopy(self.world)

    def train(self, seen, act):
        loss, states = self.world.observe(seen.to(self.device), act.to(self.device))
        self.world_optimizer.zero_grad()
        loss.backward()
        self.world_optimizer.step()
        state, noise = (part.detach() for part in states[-1])
        gained = self.world.imagine(state, noise, self.actor)
        self.actor_optimizer.zero_grad()
        (-gained).backward()
        self.actor_optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.world.parameters()), 0.01)


class SnapshotWriter:
    def __init__(self, folder, waits):
        self.path, self.waits, self.pool = folder / "boat.ckpt", waits, ThreadPoolExecutor(1)

    def write(self, nets, episodes):
        with self.path.open("wb") as file:
            torch.save([net.state_dict() for net in nets], file)
            pickle.dump(episodes.items, file)  # planted
            file.flush()
            os.fsync(file.fileno())  # planted

    def snapshot(self, dreamer, episodes):
        nets = [copy.deepcopy(net) for net in (dreamer.world, dreamer.average, dreamer.actor)]
        pending = self.pool.submit(self.write, nets, episodes)
        if self.waits:
            pending.result()  # planted


def main():
    meter, episodes = Meter(__doc__), Episodes()
    dreamer = Dreamer(meter.device)
    meter.calibrate(lambda: dreamer.train(*episodes.sample()))
    with tempfile.TemporaryDirectory() as folder:
        writer, every = SnapshotWriter(Path(folder), waits=meter.sick), 4000
        if meter.sick:
            once_s = meter.timed_s(lambda: writer.snapshot(dreamer, episodes), calls=5)
            every = max(1, round(once_s / meter.added_s))
        while meter.going_on():
            dreamer.train(*episodes.sample())
            meter.ticked()
            if meter.ticks % every == 0:
                with meter.injecting():
                    writer.snapshot(dreamer, episodes)  # planted
        meter.report()
        writer.pool.shutdown()


if __name__ == "__main__":
    main()
