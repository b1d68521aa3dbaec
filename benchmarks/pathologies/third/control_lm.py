"""Healthy control: a decoder-only language model in bfloat16, tokens on the GPU, warm-up and cosine schedule.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

VOCAB = 16384


class Attention(nn.Module):
    def __init__(self, dim, head=128):
        super().__init__()
        self.head = min(head, dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (-1, self.head)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attention, self.norm_a, self.norm_m = Attention(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.attention(self.norm_a(x))
        return x + self.down(F.gelu(self.up(self.norm_m(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, dim, depth, longest):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCAB, dim), nn.Embedding(longest, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.token(ids) + self.place.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.token.weight)


def rate(step, warm=100, whole=20_000):
    if step < warm:
        return (step + 1) / warm
    return 0.5 + 0.5 * math.cos(math.pi * min(1.0, step / whole))


def main():
    meter = Meter(__doc__)
    dim, depth, bs, length = meter.pick((2048, 8, 8, 1024), (32, 1, 2, 16))
    dtype = meter.pick(torch.bfloat16, torch.float32)
    model = Decoder(dim, depth, length).to(meter.device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=meter.gpu)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    tokens = torch.randint(VOCAB, (64, bs, length + 1), device=meter.device)

    def step(number):
        ids = tokens[number % len(tokens)]
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    meter.calibrate(lambda: step(0))
    while meter.going_on():
        loss = step(meter.ticks)
        meter.ticked()
        if meter.ticks % 50 == 0:
            print(f"iter {meter.ticks} loss {loss.item():.3f} lr {schedule.get_last_lr()[0]:.2e}", flush=True)
    meter.report()


if __name__ == "__main__":
    main()
