"""Healthy control: a walker on stony ground learns off-policy; its memory on the GPU fills, then it is full.

Tempting: the GPU's memory grows for a while, step by step; but what is old is overwritten, and no step takes
longer for it. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, ACTIONS, FULL = 60, 12, 300


class GpuMemory:
    """Blocks of transitions; made when they are needed, up to a number."""

    def __init__(self):
        self.blocks, self.turn = [], 0

    def keep(self, states):
        if len(self.blocks) < FULL:
            self.blocks.append(states.clone())
        else:
            self.blocks[self.turn % FULL].copy_(states)
        self.turn += 1

    def draw(self):
        return self.blocks[(self.turn * 7) % len(self.blocks)]


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(STATE, width), nn.Linear(width, ACTIONS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, states):
        h = self.enter(states)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.value(h).float()


class Walker:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.critic = Critic(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.critic.parameters(), 1e-5, fused=meter.gpu)
        self.states = torch.randn(rows, STATE, device=meter.device)
        self.push = torch.randn(STATE, STATE, device=meter.device) / STATE
        self.memory = GpuMemory()

    def tick(self):
        self.states = torch.addmm(self.states, self.states, self.push, beta=0.9).clamp(-3, 3)
        self.memory.keep(self.states)
        states = self.memory.draw()
        with self.meter.autocast():
            value = self.critic(states)
        loss = F.mse_loss(value.amax(1), states.mean(1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    walker = Walker(meter)
    meter.calibrate(walker.tick)
    while meter.going_on():
        walker.tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
