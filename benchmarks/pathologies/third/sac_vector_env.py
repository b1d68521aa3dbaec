"""SAC with eight gymnasium environments in a SyncVectorEnv: all of them are stepped by the training thread.

The physics is Python; how fine its steps are is the dose. A perfect diagnosis: the environments are stepped
one after another on the training thread (marked below), which takes turns with the GPU. Fix:
AsyncVectorEnv.
"""

import math

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

OBS, ACT, ENVS = 6, 2, 8


class ArmEnv(gym.Env):
    """Two links with friction; a goal for the tip."""

    def __init__(self, substeps):
        self.substeps = substeps
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (ACT,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angles, self.speeds = self.np_random.uniform(-1, 1, ACT).tolist(), [0.0, 0.0]
        self.goal, self.age = self.np_random.uniform(-1, 1, 2).tolist(), 0
        return self._obs(), {}

    def _obs(self):
        return np.array([*self.angles, *self.speeds, *self.goal], np.float32)

    def step(self, action):
        torques, dt = [float(a) for a in action], 0.05 / max(1, self.substeps)
        for _ in range(self.substeps):
            for joint in (0, 1):
                pull = torques[joint] - 0.1 * self.speeds[joint] - math.sin(self.angles[joint])
                self.speeds[joint] += dt * pull
                self.angles[joint] += dt * self.speeds[joint]
        self.age += 1
        tip = math.cos(self.angles[0]) + math.cos(sum(self.angles))
        return self._obs(), -abs(tip - self.goal[0]), False, self.age >= 200, {}


class EnvMaker:
    def __init__(self, substeps):
        self.substeps = substeps

    def __call__(self):
        return ArmEnv(self.substeps)


def mlp(n_in, width, depth, n_out):
    layers = [nn.Linear(n_in, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, n_out))


class GpuReplay:
    def __init__(self, size, device):
        self.rows = torch.randn(size, 2 * OBS + ACT + 1, device=device)
        self.place = 0

    def add(self, obs, act, rew, nxt):
        rows = np.concatenate([obs, act, rew[:, None], nxt], 1).astype(np.float32)
        self.rows[self.place : self.place + ENVS] = torch.from_numpy(rows).to(self.rows.device)
        self.place = (self.place + ENVS) % (len(self.rows) - ENVS)

    def sample(self, n):
        picked = self.rows[torch.randint(len(self.rows), (n,), device=self.rows.device)]
        return picked.split([OBS, ACT, 1, OBS], 1)


class SAC:
    def __init__(self, meter):
        self.meter, (width, depth) = meter, meter.pick((2048, 2), (32, 1))
        self.actor = mlp(OBS, width, depth, 2 * ACT).to(meter.device)
        self.critics = nn.ModuleList(mlp(OBS + ACT, width, depth, 1) for _ in range(2)).to(meter.device)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), 3e-5, fused=meter.gpu)
        self.opt_c = torch.optim.Adam(self.critics.parameters(), 3e-5, fused=meter.gpu)
        self.replay, self.batch = GpuReplay(200_000, meter.device), meter.pick(16384, 64)

    def policy(self, obs):
        mean, log_std = self.actor(obs).float().chunk(2, -1)
        return torch.tanh(mean + log_std.clamp(-5, 1).exp() * torch.randn_like(mean))

    @torch.no_grad()
    def act(self, obs):
        obs = torch.as_tensor(obs, dtype=torch.float32).to(self.meter.device)
        return self.policy(obs).cpu().numpy()

    def q(self, obs, act):
        pair = torch.cat([obs, act], 1)
        return [critic(pair).float() for critic in self.critics]

    def update(self):
        obs, act, rew, nxt = self.replay.sample(self.batch)
        with torch.no_grad(), self.meter.autocast():
            target = rew + 0.99 * torch.min(*self.q(nxt, self.policy(nxt)))
        with self.meter.autocast():
            loss_c = sum(F.mse_loss(q, target) for q in self.q(obs, act))
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()
        with self.meter.autocast():
            loss_a = -torch.min(*self.q(obs, self.policy(obs))).mean()
        self.opt_a.zero_grad()
        loss_a.backward()
        self.opt_a.step()


def substep_s(meter):
    env = ArmEnv(2000)
    env.reset(seed=0)
    return meter.timed_s(lambda: env.step((0.1, 0.1))) / env.substeps


def main():
    meter = Meter(__doc__)
    sac = SAC(meter)
    still = np.zeros((ENVS, OBS), np.float32)
    meter.calibrate(lambda: (sac.act(still), sac.update()))
    substeps = round(meter.added_s / ENVS / substep_s(meter)) if meter.dose else 1
    kind = gym.vector.AsyncVectorEnv if meter.fixed else gym.vector.SyncVectorEnv
    envs = kind([EnvMaker(substeps) for _ in range(ENVS)])
    obs, _ = envs.reset(seed=0)
    while meter.going_on():
        action = sac.act(obs)
        with meter.injecting():
            nxt, reward, _, _, _ = envs.step(action)  # planted
        sac.replay.add(obs, action, reward, nxt)
        sac.update()
        obs = nxt
        meter.ticked()
    meter.report()
    envs.close()


if __name__ == "__main__":
    main()
