"""Landers, flown in processes with a copy of the policy, and an actor-critic that learns from their flights.

The parent sends weights down its pipes, waits until all flights are back, and learns; then landers wait.
In how small steps they fly is the dose. A perfect diagnosis: rollout and update take turns (any line
marked below). Fix: the next flights begin before the update does.
"""

import math
import multiprocessing
import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

OBS, ACT, FLIGHT, HIDDEN, LEARNT = 6, 3, 40, 32, 256
SMALL = ("0.weight", "0.bias", "2.weight", "2.bias")


class Lander:
    def __init__(self, seed):
        self.rng, self.substeps = random.Random(seed), 1
        self.restart()

    def restart(self):
        self.x, self.y, self.vx, self.vy = self.rng.uniform(-1, 1), 1.0, 0.0, 0.0
        self.fuel = 1.0

    def look(self):
        return [self.x, self.y, self.vx, self.vy, self.fuel, 1.0]

    def step(self, action):
        for _ in range(self.substeps):
            dt = 0.05 / self.substeps
            drag = 0.1 * math.hypot(self.vx, self.vy)
            self.vx += dt * ((action - 1) * 0.8 - drag * self.vx)
            self.vy += dt * ((0.9 if action == 1 else 0.2) - 0.5 - drag * self.vy)
            self.x, self.y = self.x + dt * self.vx, self.y + dt * self.vy
        self.fuel = max(0.0, self.fuel - 0.01)
        reward = -abs(self.x) - abs(self.vy)
        if abs(self.x) > 2 or not 0 < self.y < 2:
            self.restart()
        return reward


def fly(lander, weights, rng):
    """A flight with the policy in NumPy."""
    w1, b1, w2, b2 = weights
    rows = np.empty((FLIGHT, OBS + 2), np.float32)
    for row in rows:
        row[:OBS] = lander.look()
        logits = w2 @ np.tanh(w1 @ row[:OBS] + b1) + b2
        action = int((logits + rng.gumbel(size=ACT)).argmax())
        row[OBS:] = action, lander.step(action)
    return rows


def env_worker(remote, seed):
    lander, rng = Lander(seed), np.random.default_rng(seed)
    while True:
        command, payload = remote.recv()
        if command == "fly":
            remote.send(fly(lander, payload, rng))
        elif command == "substeps":
            lander.substeps = payload
        else:
            remote.close()
            return


class PipeVecEnv:
    def __init__(self, count):
        context = multiprocessing.get_context("fork")
        pairs = [context.Pipe() for _ in range(count)]
        self.remotes, work_remotes = zip(*pairs, strict=True)
        self.processes = [
            context.Process(target=env_worker, args=(remote, seed), daemon=True)
            for seed, remote in enumerate(work_remotes)
        ]
        for process in self.processes:
            process.start()

    def tell(self, command, payload=None):
        for remote in self.remotes:
            remote.send((command, payload))

    def gather(self):
        return [remote.recv() for remote in self.remotes]  # planted

    def rollout(self, weights):
        self.tell("fly", weights)
        return self.gather()  # planted

    def close(self):
        self.tell("close")
        for process in self.processes:
            process.join()


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(OBS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, ACT))
        self.critic = nn.Sequential(
            nn.Linear(OBS, 448), nn.ReLU(), nn.Linear(448, 448), nn.ReLU(), nn.Linear(448, 1)
        )

    def weights(self):
        state = self.actor.state_dict()
        return [state[name].cpu().numpy().copy() for name in SMALL]


class Algorithm:
    def __init__(self, device):
        self.device, self.model = device, ActorCritic().to(device)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=3e-4)
        self.recent = torch.zeros(LEARNT, OBS + 2)

    def update(self, flights):
        new = torch.from_numpy(np.concatenate(flights))
        self.recent = torch.cat([self.recent, new])[-LEARNT:]
        seen, action, reward = self.recent.to(self.device).split((OBS, 1, 1), 1)
        for _ in range(2):
            value = self.model.critic(seen)[:, 0]
            with torch.no_grad():
                wanted = reward[:, 0] + 0.97 * value.roll(-1)
            log_p = self.model.actor(seen).log_softmax(1).gather(1, action.long())[:, 0]
            gain = wanted - value.detach()
            loss = F.mse_loss(value, wanted) - 0.1 * (log_p * gain.clamp(-2, 2)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def main():
    meter, envs = Meter(__doc__), PipeVecEnv(1)
    algorithm = Algorithm(meter.device)
    meter.calibrate(lambda: algorithm.update([np.zeros((FLIGHT, OBS + 2), np.float32)]))
    if meter.dose:

        def flying(substeps):
            def work():
                envs.tell("substeps", substeps)
                envs.rollout(algorithm.model.weights())

            return work

        envs.tell("substeps", amount_taking(meter, flying, 1, 41, meter.added_s))
    if meter.sick:
        while meter.going_on():
            with meter.injecting():
                flights = envs.rollout(algorithm.model.weights())  # planted
            algorithm.update(flights)
            meter.ticked()
    else:
        envs.tell("fly", algorithm.model.weights())
        while meter.going_on():
            flights = envs.gather()
            envs.tell("fly", algorithm.model.weights())
            algorithm.update(flights)
            meter.ticked()
        envs.gather()
    meter.report()
    envs.close()


if __name__ == "__main__":
    main()
