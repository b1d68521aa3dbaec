"""Healthy control: words of a sign language by transformer; a table of what was mixed up is kept in Python.

Tempting: loops over lists in every step; but they take a small part of what the GPU needs for the step, and
run beside it. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

from collections import Counter

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

JOINTS, FRAMES, SIGNS = 42, 64, 20


class MixedUp:
    """How often a sign follows another in the lists of what was shown."""

    def __init__(self, seen):
        self.shown, self.pairs, self.seen = [(7 * n * n + n) % SIGNS for n in range(20_000)], Counter(), seen

    def count(self, step):
        start = step * 13 % 9000
        for one, two in zip(self.shown[start : start + self.seen], self.shown[start + 1 :], strict=False):
            if one != two:
                self.pairs[one, two] += 1


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.one, self.two = max(1, size // 64), nn.LayerNorm(size), nn.LayerNorm(size)
        self.all, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, h):
        q, k, v = self.all(self.one(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = h + self.join(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h + self.narrow(F.gelu(self.wide(self.two(h))))


class SignNet(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.enter, self.sign = nn.Linear(JOINTS, size), nn.Linear(size, SIGNS)
        self.layers = nn.Sequential(*(Layer(size) for _ in range(depth)))

    def forward(self, joints):
        return self.sign(self.layers(self.enter(joints)).mean(1)).float()


def training_step(meter):
    batch = meter.pick(160, 3)
    net = SignNet(*meter.pick((1280, 4), (64, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    joints = torch.randn(batch, FRAMES, JOINTS, device=meter.device)
    signs = torch.arange(batch, device=meter.device) % SIGNS

    def step():
        with meter.autocast():
            scores = net(joints)
        loss = F.cross_entropy(scores, signs, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def main():
    meter = Meter(__doc__)
    step, mixed_up = training_step(meter), MixedUp(seen=meter.pick(8000, 40))
    meter.calibrate(lambda: (step(), mixed_up.count(7)))
    while meter.going_on():
        step()
        mixed_up.count(meter.ticks)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
