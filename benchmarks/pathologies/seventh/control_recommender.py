"""Healthy control: what a shop suggests next, by attention over what was bought; everything is on the GPU.

Plain. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted
line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WARES, HEADS = 500, 4


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.wide, self.narrow = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, h):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.mix(self.norm(h)).chunk(3, -1))
        h = h + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return h + self.narrow(F.silu(self.wide(h)))


class NextWare(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.ware = nn.Embedding(WARES, dim)
        self.layers = nn.Sequential(*(Layer(dim) for _ in range(depth)))

    def forward(self, bought):
        return self.layers(self.ware(bought)) @ self.ware.weight.T


def main():
    meter = Meter(__doc__)
    customers, long = meter.pick((512, 64), (8, 24))
    net = NextWare(*meter.pick((1024, 3), (128, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    bought = torch.randint(WARES, (2 * customers, long + 1), device=meter.device)

    def tick():
        chosen = bought[torch.randint(len(bought), (customers,), device=meter.device)]
        with meter.autocast():
            scores = net(chosen[:, :-1])
        loss = F.cross_entropy(scores.float().flatten(0, 1), chosen[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
