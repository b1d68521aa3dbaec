"""Two faults: prioritized replay by a Python tree on the CPU, and a checkpoint every few steps.

Each takes three quarters of a dose. A perfect diagnosis names both: the walk down the tree (first marked
line) and checkpoints much too often (second). Fix: uniform indices at once, no checkpoint before the end.
"""

import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from stopwatch import Meter
from torch import nn

PART, OBS, ACTIONS, CAPACITY = 0.75, 24, 6, 2**15


class SumTree:
    def __init__(self, capacity):
        self.capacity = capacity
        self.nodes = [0.0] * capacity + [random.random() for _ in range(capacity)]
        for node in range(capacity - 1, 0, -1):
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1]

    def find(self, mass):
        node = 1
        while node < self.capacity:
            node *= 2
            if mass > self.nodes[node]:
                mass -= self.nodes[node]
                node += 1
        return node - self.capacity


class Replay:
    def __init__(self, device):
        rng = np.random.default_rng(0)
        self.obs = rng.standard_normal((CAPACITY + 1, OBS), dtype=np.float32)
        self.action, self.reward = rng.integers(0, ACTIONS, CAPACITY), rng.random(CAPACITY, dtype=np.float32)
        self.tree, self.device, self.rng, self.draws = SumTree(CAPACITY), device, rng, 0

    def prioritized(self):
        total = self.tree.nodes[1]
        return [self.tree.find(random.random() * total) for _ in range(self.draws)]  # planted

    def sample(self, batch, by_priority):
        picked = self.prioritized() if by_priority else self.rng.integers(0, CAPACITY, batch)
        index = np.resize(np.asarray(picked), batch)
        columns = (self.obs[index], self.action[index], self.reward[index], self.obs[index + 1])
        return [torch.from_numpy(column).to(self.device) for column in columns]


class QNet(nn.Sequential):
    def __init__(self, dim, depth):
        super().__init__(nn.Linear(OBS, dim), nn.Mish())
        for _ in range(depth):
            self.extend([nn.Linear(dim, dim), nn.Mish()])
        self.append(nn.Linear(dim, ACTIONS))


class DoubleDqn:
    def __init__(self, meter):
        self.meter, shape = meter, meter.pick((2048, 6), (32, 1))
        self.q, self.frozen = QNet(*shape).to(meter.device), QNet(*shape).to(meter.device)
        self.optimizer = torch.optim.Adam(self.q.parameters(), 1e-5, fused=meter.gpu)

    def learn(self, obs, action, reward, nxt):
        with torch.no_grad(), self.meter.autocast():
            best = self.q(nxt).argmax(1, keepdim=True)
            goal = reward + 0.99 * self.frozen(nxt).gather(1, best)[:, 0]
        with self.meter.autocast():
            now = self.q(obs).gather(1, action[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(now.float(), goal.float())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def save(self, path):
        torch.save({"q": self.q.state_dict(), "frozen": self.frozen.state_dict()}, path)  # planted


def main():
    meter = Meter(__doc__)
    agent, replay, batch = DoubleDqn(meter), Replay(meter.device), meter.pick(16384, 64)
    ready = replay.sample(batch, by_priority=False)
    healthy_s = meter.calibrate(lambda: agent.learn(*ready))
    part_s = PART * meter.added_s
    replay.draws = 500
    draw_s = meter.timed_s(replay.prioritized) / 500
    tree_s = part_s + healthy_s if meter.gpu and meter.dose else part_s
    replay.draws = max(1, round(tree_s / draw_s))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agent.pt")
        save_every = max(1, round(meter.timed_s(lambda: agent.save(path)) / part_s)) if meter.sick else 10**6
        while meter.going_on():
            agent.learn(*replay.sample(batch, by_priority=meter.sick))
            meter.ticked()
            if meter.ticks % save_every == 0:
                agent.save(path)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
