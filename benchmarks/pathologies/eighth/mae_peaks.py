"""A masked autoencoder whose logger wants a clean figure of the peak memory, and so empties the cache.

How often it logs is the dose. A perfect diagnosis: the allocator gives memory back to the driver and asks
for it again all the time (marked below). Fix: the peak is read without emptying. Needs a GPU.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class PeakMemory:
    """The peak of each stretch of the run, by itself."""

    def __init__(self, every, gpu):
        self.every, self.gpu, self.peaks = every, gpu, []

    def on_step_end(self, step):
        if self.every and step % self.every == 0:
            self.log()

    def log(self):
        if self.gpu:
            self.peaks.append(torch.cuda.max_memory_reserved())
            torch.cuda.empty_cache()  # planted
            torch.cuda.reset_peak_memory_stats()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.heads = max(1, dim // 64)
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, h):
        q, k, v = self.qkv(self.first(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = h + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h + self.narrow(F.gelu(self.wide(self.second(h))))


class MaskedAutoencoder(nn.Module):
    def __init__(self, patches, pixels, dim, depth):
        super().__init__()
        self.shown = patches // 4
        self.enter, self.leave = nn.Linear(pixels, dim), nn.Linear(dim, pixels)
        self.place = nn.Parameter(0.02 * torch.randn(patches, dim))
        self.hidden = nn.Parameter(torch.zeros(dim))
        self.encoder = nn.Sequential(*(Block(dim) for _ in range(depth)))

    def forward(self, patches):
        noise = torch.rand(patches.shape[:2], device=patches.device)
        shown = noise.argsort(1)[:, : self.shown, None]
        seen = patches.gather(1, shown.expand(-1, -1, patches.shape[2]))
        seen = self.enter(seen)
        h = self.encoder(seen + self.place[shown[..., 0]].to(seen.dtype))
        guess = self.leave(h.mean(1, keepdim=True) + self.place + self.hidden)
        return F.mse_loss(guess.float(), patches)


class Pretraining:
    def __init__(self, meter):
        self.meter, (batch, patches, pixels, dim, depth) = (
            meter,
            meter.pick((256, 196, 192, 1024, 4), (8, 16, 12, 32, 2)),
        )
        self.net = MaskedAutoencoder(patches, pixels, dim, depth).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.patches = torch.rand(batch, patches, pixels, device=meter.device)

    def step(self):
        with self.meter.autocast():
            loss = self.net(self.patches)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    pretraining = Pretraining(meter)
    peaks = PeakMemory(0, meter.gpu)
    healthy_s = meter.calibrate(pretraining.step)
    if meter.sick and meter.gpu:
        fresh_s = meter.timed_s(lambda: (pretraining.step(), peaks.log()), calls=6) - healthy_s
        peaks.every = max(1, round(fresh_s / meter.added_s))
    while meter.going_on():
        pretraining.step()
        meter.ticked()
        peaks.on_step_end(meter.ticks)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
