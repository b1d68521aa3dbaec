"""SAC on a reaching arm of tensors; so that a run may go on after a fault, all of it is written to a file.

All is the nets, their optimizers and the replay buffer, which is the largest part. How often it is
written is the dose. A perfect diagnosis: saving stops the training (any line marked below). Fix: every
few thousand steps.
"""

import argparse
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

OBS, ACT, ARMS = 10, 4, 16


def parse_args(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--buffer-size", type=int, default=24_000)
    parser.add_argument("--batch-size", type=int, default=144)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--alpha", type=float, default=0.2)
    parser.add_argument("--save-frequency", type=int, default=5000)
    return parser.parse_args(words)


class ReplayBuffer:
    def __init__(self, size):
        self.observations = np.zeros((size, OBS), np.float32)
        self.next_observations = np.zeros((size, OBS), np.float32)
        self.actions = np.zeros((size, ACT), np.float32)
        self.rewards = np.zeros(size, np.float32)
        self.size, self.pos, self.full = size, 0, False
        self.rng = np.random.default_rng(0)

    def add(self, obs, after, action, reward):
        rows = (self.pos + np.arange(len(obs))) % self.size
        self.observations[rows], self.next_observations[rows] = obs, after
        self.actions[rows], self.rewards[rows] = action, reward
        self.pos = int(rows[-1] + 1) % self.size

    def sample(self, count):
        rows = self.rng.integers(0, self.size, count)
        parts = self.observations, self.next_observations, self.actions, self.rewards
        return [torch.from_numpy(part[rows]) for part in parts]


class SoftQNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS + ACT, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 1)
        )

    def forward(self, x, a):
        return self.net(torch.cat([x, a], 1))[:, 0]


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU())
        self.mean, self.log_std = nn.Linear(192, ACT), nn.Linear(192, ACT)

    def get_action(self, x):
        h = self.body(x)
        mean, log_std = self.mean(h), self.log_std(h).tanh() * 3 - 2
        normal = torch.distributions.Normal(mean, log_std.exp())
        raw = normal.rsample()
        action = raw.tanh()
        return action, (normal.log_prob(raw) - (1 - action.square() + 1e-6).log()).sum(1)


def save_run(path, modules, optimizers, buffer, step):
    partial = path.with_suffix(".tmp")
    with partial.open("wb") as file:
        torch.save(
            {
                "modules": [module.state_dict() for module in modules],
                "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                "step": step,
            },
            file,
        )
        pickle.dump(buffer, file, protocol=4)  # planted
        file.flush()
        os.fsync(file.fileno())  # planted
    partial.replace(path)


meter = Meter(__doc__)
device, args = meter.device, parse_args([])
actor, qf1, qf2, qf1_target, qf2_target = (
    net.to(device) for net in (Actor(), SoftQNetwork(), SoftQNetwork(), SoftQNetwork(), SoftQNetwork())
)
q_optimizer = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=1e-3)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
rb = ReplayBuffer(args.buffer_size)
state = torch.rand(ARMS, OBS)


def environment(state, action):
    """Joints follow what is asked; the hand should be where the last entries are."""
    joints = state[:, :ACT] + 0.1 * action
    after = torch.cat([joints.remainder(2), state[:, ACT:]], 1)
    hand = torch.stack([joints.cos().sum(1), joints.sin().sum(1)], 1)
    return after, -(hand - state[:, -2:]).norm(dim=1)


def one_step():
    global state
    with torch.no_grad():
        action, _ = actor.get_action(state.to(device))
    after, reward = environment(state, action.cpu())
    rb.add(state.numpy(), after.numpy(), action.cpu().numpy(), reward.numpy())
    state = after

    obs, after, action, reward = (part.to(device) for part in rb.sample(args.batch_size))
    with torch.no_grad():
        wanted, log_p = actor.get_action(after)
        least = torch.min(qf1_target(after, wanted), qf2_target(after, wanted)) - args.alpha * log_p
        target = reward + args.gamma * least
    q_optimizer.zero_grad()
    (F.mse_loss(qf1(obs, action), target) + F.mse_loss(qf2(obs, action), target)).backward()
    q_optimizer.step()

    proposed, log_p = actor.get_action(obs)
    actor_optimizer.zero_grad()
    (args.alpha * log_p - torch.min(qf1(obs, proposed), qf2(obs, proposed))).mean().backward()
    actor_optimizer.step()
    with torch.no_grad():
        for net, slow in ((qf1, qf1_target), (qf2, qf2_target)):
            torch._foreach_lerp_(list(slow.parameters()), list(net.parameters()), 0.005)


meter.calibrate(one_step)
with tempfile.TemporaryDirectory() as folder:
    modules, optimizers = (actor, qf1, qf2), (q_optimizer, actor_optimizer)
    path = Path(folder) / "sac.ckpt"
    if meter.sick:
        once_s = meter.timed_s(lambda: save_run(path, modules, optimizers, rb, 0), calls=4)
        args.save_frequency = max(1, round(once_s / meter.added_s))
    while meter.going_on():
        one_step()
        meter.ticked()
        if meter.ticks % args.save_frequency == 0:
            with meter.injecting():
                save_run(path, modules, optimizers, rb, meter.ticks)  # planted
    meter.report()
