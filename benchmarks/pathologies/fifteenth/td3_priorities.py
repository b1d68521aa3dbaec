"""TD3 on a pendulum of tensors; what it learns from is drawn by priorities, from a tree of Python lists.

Candidates are drawn, those with the largest error are learnt from, and the priority of all is renewed.
How many candidates there are is the dose. A perfect diagnosis: hot lines of Python on the training thread
(any line marked below). Fix: an array of priorities, its running sum, and a search for all at once.
"""

import random
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn


@dataclass
class Args:
    seed: int = 1
    gamma: float = 0.99
    tau: float = 0.005
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_frequency: int = 2
    batch_size: int = 160
    capacity: int = 4096
    alpha: float = 0.6


OBS, ACT, ENVS = 3, 1, 8


class SumTree:
    """Leaves hold priorities, and every node above the sum of its two."""

    def __init__(self, capacity):
        self.capacity, self.nodes = capacity, [0.0] * (2 * capacity)

    @staticmethod
    def left_of(node):
        return 2 * node

    def raise_to_root(self, node, change):
        while node > 1:
            node //= 2
            self.nodes[node] += change  # planted

    def set(self, leaf, priority):
        node = leaf + self.capacity
        change = priority - self.nodes[node]
        self.nodes[node] = priority
        self.raise_to_root(node, change)

    def find(self, mass):
        node = 1
        while node < self.capacity:
            left = self.left_of(node)
            if mass <= self.nodes[left]:  # planted
                node = left
            else:
                mass -= self.nodes[left]
                node = left + 1
        return node - self.capacity


class TreePriorities:
    def __init__(self, args):
        self.tree, self.alpha = SumTree(args.capacity), args.alpha
        for leaf in range(args.capacity):
            self.tree.set(leaf, 1.0)

    def draw(self, count):
        segment = self.tree.nodes[1] / count
        return [self.tree.find(segment * (k + random.random())) for k in range(count)]  # planted

    def renew(self, leaves, errors):
        for leaf, error in zip(leaves, errors, strict=True):
            self.tree.set(leaf, (error + 1e-3) ** self.alpha)  # planted


class ArrayPriorities:
    def __init__(self, args):
        self.masses, self.alpha = np.ones(args.capacity), args.alpha

    def draw(self, count):
        above = np.cumsum(self.masses)
        wanted = (np.arange(count) + np.random.rand(count)) / count * above[-1]
        return np.searchsorted(above, wanted).clip(0, len(above) - 1)

    def renew(self, leaves, errors):
        self.masses[leaves] = (np.asarray(errors) + 1e-3) ** self.alpha


class QNetwork(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.fc1 = nn.Linear(OBS + ACT, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x))).view(-1)


class Actor(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.fc1 = nn.Linear(OBS, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc_mu = nn.Linear(hidden, ACT)

    def forward(self, x):
        return torch.tanh(self.fc_mu(F.relu(self.fc2(F.relu(self.fc1(x))))))


def pendulum(theta, speed, torque):
    speed = (speed + 0.05 * (15 * theta.sin() + 6 * torque[:, 0])).clamp(-8, 8)
    theta = theta + 0.05 * speed
    return theta, speed, -(torch.cos(theta) - 1).square() - 0.1 * speed.square()


def look(theta, speed):
    return torch.stack([theta.cos(), theta.sin(), speed], 1)


if __name__ == "__main__":
    meter, args = Meter(__doc__), Args()
    device = meter.device
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    actor, target_actor = Actor().to(device), Actor().to(device)
    qf1, qf2, qf1_target, qf2_target = (QNetwork().to(device) for _ in range(4))
    target_actor.load_state_dict(actor.state_dict())
    qf1_target.load_state_dict(qf1.state_dict())
    qf2_target.load_state_dict(qf2.state_dict())
    q_optimizer = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=3e-4)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    online = [*actor.parameters(), *qf1.parameters(), *qf2.parameters()]
    offline = [*target_actor.parameters(), *qf1_target.parameters(), *qf2_target.parameters()]

    columns = 2 * OBS + ACT + 1
    memory, errors = torch.randn(args.capacity, columns), np.ones(args.capacity)
    theta, speed, head = torch.rand(ENVS), torch.zeros(ENVS), 0

    def interact():
        global theta, speed, head
        obs = look(theta, speed)
        with torch.no_grad():
            torque = (actor(obs.to(device)) + 0.1 * torch.randn(ENVS, ACT, device=device)).clamp(-1, 1).cpu()
        theta, speed, reward = pendulum(theta, speed, torque)
        rows = torch.cat([obs, look(theta, speed), torque, reward[:, None]], 1)
        memory[head : head + ENVS] = rows
        head = (head + ENVS) % args.capacity

    def learn(picked, global_step):
        data = memory[torch.as_tensor(picked)].to(device)
        obs, after, torque, reward = data.split((OBS, OBS, ACT, 1), 1)
        with torch.no_grad():
            noise = (args.policy_noise * torch.randn_like(torque)).clamp(-args.noise_clip, args.noise_clip)
            wanted = (target_actor(after) + noise).clamp(-1, 1)
            worst = torch.min(qf1_target(after, wanted), qf2_target(after, wanted))
            wanted_q = reward[:, 0] + args.gamma * worst
        q1, q2 = qf1(obs, torque), qf2(obs, torque)
        q_optimizer.zero_grad()
        (F.mse_loss(q1, wanted_q) + F.mse_loss(q2, wanted_q)).backward()
        q_optimizer.step()
        if global_step % args.policy_frequency == 0:
            actor_optimizer.zero_grad()
            (-qf1(obs, actor(obs)).mean()).backward()
            actor_optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(offline, online, args.tau)
        return (q1 - wanted_q).abs().detach().tolist()

    def iterate(priorities, candidates, spent=nullcontext):
        with spent():
            leaves = priorities.draw(candidates)
            priorities.renew(leaves, errors[leaves])
        order = np.argsort(errors[leaves])[-args.batch_size :]
        picked = np.asarray(leaves)[order]
        interact()
        errors[picked] = learn(picked, meter.ticks)

    arrays, candidates = ArrayPriorities(args), 2 * args.batch_size
    meter.calibrate(lambda: iterate(arrays, candidates))
    if meter.dose:
        tree = TreePriorities(args)

        def drawing(count):
            def work():
                leaves = tree.draw(count)
                tree.renew(leaves, errors[leaves])

            return work

        candidates = amount_taking(meter, drawing, args.batch_size, 1000, meter.added_s)
        candidates = max(candidates, args.batch_size)
    priorities = TreePriorities(args) if meter.sick else arrays
    while meter.going_on():
        iterate(priorities, candidates, meter.injecting)
        meter.ticked()
    meter.report()
