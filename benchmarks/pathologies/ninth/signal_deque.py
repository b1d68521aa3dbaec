"""Traffic lights learn by DQN; the replay is a deque, from whose middle a batch is drawn in every step.

To reach a place in its middle, a deque is walked through from its end; how many transitions are drawn is the
dose. A perfect diagnosis: a slow line of Python in every step (marked below). Fix: a ring of arrays, indexed
by NumPy.
"""

import random
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LANES, PHASES, KEPT, MOST = 32, 8, 300_000, 60_000


class DequeMemory:
    def __init__(self):
        self.rewards, self.random = deque(maxlen=KEPT), random.Random(0)
        self.rewards.extend(0.001 * (n * 7919 % 1000) for n in range(KEPT))

    def draw(self, count):
        return np.array(self.random.sample(self.rewards, count), np.float32)  # planted


class RingMemory:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.rewards = self.rng.random(KEPT, dtype=np.float32)

    def draw(self, count):
        return self.rewards[self.rng.integers(0, KEPT, count)]


class SignalNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(LANES, width), nn.Linear(width, PHASES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, queues):
        h = self.enter(queues)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.value(h).float()


class Dqn:
    def __init__(self, meter):
        self.meter, self.rows, self.drawn = meter, meter.pick(8192, 64), 64
        self.net = SignalNet(*meter.pick((4096, 5), (192, 5))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.queues = torch.rand(self.rows, LANES, device=meter.device)
        self.phases = torch.randint(PHASES, (self.rows, 1), device=meter.device)

    def learn(self, memory):
        with self.meter.injecting():
            drawn = memory.draw(self.drawn)
        rewards = torch.from_numpy(np.resize(drawn, self.rows))
        rewards = rewards.pin_memory() if self.meter.gpu else rewards
        rewards = rewards.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            value = self.net(self.queues)
        loss = F.smooth_l1_loss(value.gather(1, self.phases)[:, 0], rewards)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    dqn, ring = Dqn(meter), RingMemory()
    meter.calibrate(lambda: dqn.learn(ring))
    memory = DequeMemory()
    if meter.dose:
        each_s = meter.timed_s(lambda: memory.draw(512), calls=5) / 512
        dqn.drawn = min(MOST, max(1, round(meter.host_s / each_s)))
    memory = memory if meter.sick else ring
    meter.injected_s = 0.0
    while meter.going_on():
        dqn.learn(memory)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
