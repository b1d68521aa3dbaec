"""Healthy control: a diffusion transformer with a moving average of its weights, data on the GPU.

Tempting: the loss is read from the GPU every hundred steps, which costs nothing. A perfect diagnosis:
healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import copy

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PATCH, READ_EVERY = 64, 100


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim, elementwise_affine=False)
        self.shift, self.qkv, self.out = nn.Linear(dim, 4 * dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim)
        )

    def forward(self, x, when):
        b, n, d = x.shape
        s1, g1, s2, g2 = self.shift(when)[:, None].chunk(4, -1)
        q, k, v = self.qkv(self.norm(x) + s1).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + g1 * self.out(mixed)
        return x + g2 * self.mlp(self.norm(x) + s2)


class DiT(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.enter, self.when = nn.Linear(PATCH, dim), nn.Linear(1, dim)
        self.blocks = nn.ModuleList(DiTBlock(dim, heads) for _ in range(depth))
        self.leave = nn.Linear(dim, PATCH)

    def forward(self, noisy, level):
        x, when = self.enter(noisy), F.silu(self.when(level))
        for block in self.blocks:
            x = block(x, when)
        return self.leave(x)


class Diffusion:
    def __init__(self, meter):
        self.meter, (self.batch, patches) = meter, meter.pick((48, 256), (8, 32))
        self.model = DiT(*meter.pick((1024, 16, 4), (64, 2, 2))).to(meter.device)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=meter.gpu)
        self.latents = torch.randn(512, patches, PATCH, device=meter.device)
        self.steps, self.losses = 0, []

    def step(self):
        rows = torch.randint(len(self.latents), (self.batch,), device=self.meter.device)
        clean, level = self.latents[rows], torch.rand(self.batch, 1, device=self.meter.device)
        noise = torch.randn_like(clean)
        noisy = torch.lerp(clean, noise, level[..., None])
        with self.meter.autocast():
            velocity = self.model(noisy, level)
        loss = F.mse_loss(velocity.float(), noise - clean)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.steps % READ_EVERY == 0:
            self.losses.append(loss.item())
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 0.001)


def main():
    meter = Meter(__doc__)
    diffusion = Diffusion(meter)
    meter.calibrate(diffusion.step)
    while meter.going_on():
        diffusion.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
