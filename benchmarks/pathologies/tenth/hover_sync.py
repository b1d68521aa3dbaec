"""Drones learn to hover by PPO, in gymnasium's `SyncVectorEnv`, each with rotors simulated in plain Python.

How many small steps of the rotors one step of the environment has is the dose. A perfect diagnosis: the
environment is stepped on the training thread while the GPU waits (the step marked below). Fix: all drones
together, by NumPy.
"""

import math

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, ROTORS = 8, 4


class Hover(gym.Env):
    observation_space = gym.spaces.Box(-10.0, 10.0, (SEEN,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (ROTORS,), np.float32)

    def __init__(self, substeps):
        self.substeps = substeps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height, self.rise, self.age = 1.0, 0.0, 0
        self.spin = [float(s) for s in self.np_random.random(ROTORS)]
        return self._seen(), {}

    def _seen(self):
        return np.array([self.height, self.rise, *self.spin, 0.0, 1.0], np.float32)

    def step(self, action):
        wanted = [float(a) for a in action]
        for _ in range(self.substeps):
            for n in range(ROTORS):
                self.spin[n] += 0.05 * (wanted[n] - self.spin[n])
            lift = sum(math.tanh(s) for s in self.spin)
            self.rise = 0.99 * self.rise + 0.001 * lift
            self.height += 0.001 * self.rise
        self.age += 1
        over = abs(self.height - 1.0) > 5.0
        return self._seen(), -abs(self.height - 1.0), over, self.age >= 500, {}


def airfield(drones, substeps):
    envs = gym.vector.SyncVectorEnv([lambda: Hover(substeps)] * drones)
    envs.reset(seed=0)
    return envs


def substeps_taking(meter, drones, wanted_s):
    still, times = np.zeros((drones, ROTORS), np.float32), []
    for substeps in (1, 21):
        envs = airfield(drones, substeps)
        times.append(meter.timed_s(lambda e=envs: e.step(still), calls=20))
    return max(1, round(1 + (wanted_s - times[0]) * 20 / (times[1] - times[0])))


class HoverTogether:
    """The same drones, as rows."""

    def __init__(self, drones, substeps):
        self.substeps, self.height, self.rise = substeps, np.ones(drones), np.zeros(drones)
        self.spin = np.random.default_rng(0).random((drones, ROTORS))

    def seen(self):
        rest = np.broadcast_to([0.0, 1.0], (len(self.height), 2))
        return np.column_stack([self.height, self.rise, self.spin, rest]).astype(np.float32)

    def step(self, actions):
        for _ in range(self.substeps):
            self.spin += 0.05 * (actions - self.spin)
            self.rise = 0.99 * self.rise + 0.001 * np.tanh(self.spin).sum(1)
            self.height += 0.001 * self.rise
        return self.seen(), -np.abs(self.height - 1.0)


class Pilot(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, ROTORS + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.leave(h).float().split((ROTORS, 1), 1)


class Ppo:
    def __init__(self, meter, drones):
        self.meter, self.rows, self.at = meter, meter.pick(8192, 192), 0
        self.pilot = Pilot(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.pilot.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.rand(self.rows, SEEN, device=meter.device)
        self.moves = torch.zeros(self.rows, ROTORS, device=meter.device)
        self.rewards, self.drones = torch.zeros(self.rows, device=meter.device), drones

    @torch.no_grad()
    def act(self, seen):
        seen = torch.from_numpy(seen).to(self.meter.device)
        with self.meter.autocast():
            mean, _ = self.pilot(seen)
        moves = mean.tanh() + 0.1 * torch.randn_like(mean)
        self.place = slice(self.at, self.at + self.drones)
        self.seen[self.place], self.moves[self.place] = seen, moves
        self.at = (self.at + self.drones) % self.rows
        return moves.cpu().numpy()

    def learn(self, rewards):
        self.rewards[self.place] = torch.from_numpy(rewards).float().to(self.meter.device)
        with self.meter.autocast():
            mean, value = self.pilot(self.seen)
        gain = self.rewards - value[:, 0]
        likely = -(self.moves - mean.tanh()).square().mean(1)
        loss = gain.square().mean() - (likely * gain.detach()).clamp(-2, 2).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    drones = meter.pick(64, 24)
    ppo, together = Ppo(meter, drones), HoverTogether(drones, 1)
    seen = together.seen()

    def round_of(step):
        with meter.injecting():
            seen, rewards = step(ppo.act(together.seen()))[:2]
        ppo.learn(rewards)
        return seen

    meter.calibrate(lambda: round_of(together.step))
    substeps = substeps_taking(meter, drones, meter.added_s) if meter.dose else 1
    together.substeps = substeps
    envs = airfield(drones, substeps)
    meter.injected_s = 0.0
    while meter.going_on():
        moves = ppo.act(seen)
        with meter.injecting():
            if meter.sick:
                seen, rewards, *_ = envs.step(moves)  # planted
            else:
                seen, rewards = together.step(moves)
        ppo.learn(rewards)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
