"""Healthy control: a decoder-only transformer in bf16, its tokens on the GPU, the loss read every 50th step.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (
            one.unflatten(2, (-1, 64)).transpose(1, 2) for one in self.qkv(self.before(x)).chunk(3, -1)
        )
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


def main():
    meter = Meter(__doc__)
    words, width, depth, batch, length = meter.pick((8192, 1024, 8, 48, 512), (128, 64, 2, 4, 32))
    layers = [Layer(width) for _ in range(depth)]
    model = nn.Sequential(nn.Embedding(words, width), *layers, nn.Linear(width, words)).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=meter.gpu)
    text = torch.randint(words, (1_000_000,), device=meter.device)
    steps = torch.arange(length + 1, device=meter.device)

    def step():
        starts = torch.randint(len(text) - length - 1, (batch, 1), device=meter.device)
        tokens = text[starts + steps]
        with meter.autocast():
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    meter.calibrate(step)
    while meter.going_on():
        loss = step()
        meter.ticked()
        if meter.ticks % 50 == 0:
            print(f"step {meter.ticks}  loss {loss.item():.3f}", flush=True)
    meter.report()


if __name__ == "__main__":
    main()
