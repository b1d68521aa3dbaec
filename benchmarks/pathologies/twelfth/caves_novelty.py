"""Caves are explored off-policy; what is new to the explorer counts as a reward of its own.

New is what is unlike all that was ever seen, and the memory of that has no end. How much of each step it
takes in is the dose, so that a run's mean is what the dose says: memory, and the time to compare with it,
grow from step to step. A perfect diagnosis: the GPU's memory grows steadily, by the slabs added at the line
marked below. Fix: the oldest slab is written over.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

RAYS, WAYS = 36, 6


class Memory:
    """Slabs of embedded states. `limit`: how many of them, at most."""

    def __init__(self, rows, size, device, limit=None):
        self.shape, self.device, self.limit = (rows, size), device, limit
        self.slabs, self.at = [self.slab()], 0

    def slab(self):
        kind = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        return torch.zeros(self.shape, dtype=kind, device=self.device)

    def room(self, count):
        if self.at + count > self.shape[0]:
            if self.limit is None or len(self.slabs) < self.limit:
                self.slabs.append(self.slab())  # planted
            else:
                self.slabs.append(self.slabs.pop(0))
            self.at = 0
        self.at += count
        return self.slabs[-1][self.at - count : self.at]

    def novelty(self, states):
        alike = torch.stack([(slab @ states.T).amax(0) for slab in self.slabs]).amax(0)
        return 1 - alike.float()

    def take_in(self, states):
        self.room(len(states)).copy_(states)


class Explorer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.worth = nn.Linear(RAYS, width), nn.Linear(width, WAYS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, rays):
        h = self.enter(rays)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return h, self.worth(h).float()


class Exploration:
    def __init__(self, meter):
        self.meter, (self.rows, width, depth) = meter, meter.pick((8192, 4096, 5), (48, 64, 3))
        self.asked, self.kept, rows = meter.pick((512, 16, 32_768), (16, 4, 256))
        self.net = Explorer(width, depth).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.memory = Memory(rows, width, meter.device, limit=1)
        self.rays = torch.rand(self.rows, RAYS, device=meter.device)
        self.way = torch.randint(WAYS, (self.rows, 1), device=meter.device)
        self.reward = torch.rand(self.rows, device=meter.device)

    @torch.no_grad()
    def curious(self, h):
        states = F.normalize(h.detach(), dim=1).to(self.memory.slabs[0].dtype)
        reward = self.reward.clone()
        reward[: self.asked] += 0.1 * self.memory.novelty(states[: self.asked])
        self.memory.take_in(states[: self.kept])
        return reward

    def step(self):
        with self.meter.autocast():
            h, worth = self.net(self.rays)
        loss = F.smooth_l1_loss(worth.gather(1, self.way)[:, 0], self.curious(h))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def kept_for(meter, exploration):
    """States of each step, if what is added on average is to be the dose."""
    memory = exploration.memory
    states = torch.ones_like(memory.slabs[0][: exploration.asked])
    row_s = meter.timed_s(lambda: memory.novelty(states), calls=10) / memory.shape[0]
    ticks = 0.85 * meter.seconds / (meter.healthy_s + meter.added_s)
    return max(4, min(exploration.rows, round(2 * meter.added_s / row_s / ticks)))


def main():
    meter = Meter(__doc__)
    exploration = Exploration(meter)
    meter.calibrate(exploration.step)
    if meter.dose:
        exploration.kept = kept_for(meter, exploration)
    if meter.sick:
        exploration.memory.limit = None
    while meter.going_on():
        exploration.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
