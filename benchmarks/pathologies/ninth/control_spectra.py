"""Healthy control: noise is taken from the spectra of stars by a small transformer, as in diffusion.

Plain. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted
line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PIECE = 32


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.heads = max(1, dim // 128)
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, h):
        q, k, v = self.qkv(self.first(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = h + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h + self.narrow(F.gelu(self.wide(self.second(h))))


class SpectrumDenoiser(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(PIECE + 1, dim), nn.Linear(dim, PIECE)
        self.blocks = nn.Sequential(*(Block(dim) for _ in range(depth)))

    def forward(self, noisy, level):
        h = torch.cat([noisy, level.expand(-1, noisy.shape[1], 1)], 2)
        return self.leave(self.blocks(self.enter(h))).float()


def main():
    meter = Meter(__doc__)
    batch, pieces = meter.pick((32, 256), (4, 16))
    net = SpectrumDenoiser(*meter.pick((2048, 2), (48, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    spectra = torch.randn(batch, pieces, PIECE, device=meter.device)

    def tick():
        level = torch.rand(batch, 1, 1, device=meter.device)
        noise = torch.randn_like(spectra)
        with meter.autocast():
            found = net((1 - level) * spectra + level * noise, level)
        loss = F.mse_loss(found, noise)
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
