"""A decision transformer learns from recorded play; its batch is that of the paper, made for a small card.

A sequence takes 1.4, 2.2 and 3.5 times as long as with the largest batch at doses 1 to 3; compare
`samples_per_s`. A perfect diagnosis: the batch is too small for this GPU, most of whose memory is free, and
so launches take longer than kernels; the size is used at the line marked below. Fix: the large batch.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TIMES = (1.0, 1.4, 2.2, 3.5)
STATE, ACTIONS, STEPS = 60, 8, 64


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.heads = max(1, dim // 64)
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, h):
        q, k, v = self.qkv(self.first(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).flatten(2))
        return h + self.narrow(F.gelu(self.wide(self.second(h))))


class DecisionTransformer(nn.Module):
    """Returns to come and states in, actions out."""

    def __init__(self, dim, depth):
        super().__init__()
        self.enter, self.action = nn.Linear(STATE + 1, dim), nn.Linear(dim, ACTIONS)
        self.blocks = nn.Sequential(*(Block(dim) for _ in range(depth)))

    def forward(self, steps):
        return self.action(self.blocks(self.enter(steps))).float().tanh()


class Recordings:
    def __init__(self, sequences, device):
        self.steps = torch.randn(sequences, STEPS, STATE + 1, device=device)
        self.actions = torch.rand(sequences, STEPS, ACTIONS, device=device)

    def take(self, count):
        start = int(torch.randint(len(self.steps) - count + 1, ()))
        return self.steps[start : start + count], self.actions[start : start + count]


class Training:
    def __init__(self, meter):
        self.meter, (self.largest, dim, depth) = meter, meter.pick((160, 1024, 6), (16, 32, 2))
        self.net = DecisionTransformer(dim, depth).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.recordings = Recordings(2 * self.largest, meter.device)

    def step(self, batch):
        steps, actions = self.recordings.take(batch)
        with self.meter.autocast():
            guess = self.net(steps)
        loss = F.mse_loss(guess, actions)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def batch_of_the_paper(training, times):
    """The first batch, from the largest down, whose sequences take so many times as long; a step's waste."""
    meter, batch = training.meter, training.largest
    each_s = meter.healthy_s / batch
    while batch > 1:
        batch = max(1, batch * 4 // 5)
        tick_s = meter.timed_s(lambda b=batch: training.step(b), calls=4)
        if tick_s >= times * batch * each_s:
            break
    return batch, max(0.0, tick_s - batch * each_s)


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    batch, wasted_s = training.largest, 0.0
    meter.calibrate(lambda: training.step(batch))
    if meter.sick:
        batch, wasted_s = batch_of_the_paper(training, TIMES[meter.dose])
    while meter.going_on():
        training.step(batch)  # planted
        meter.injected_s += wasted_s
        meter.ticked(samples=batch)
    meter.report()


if __name__ == "__main__":
    main()
