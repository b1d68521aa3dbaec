"""A transformer guesses residues of proteins that are masked; the loop is written as a module and a `Fit`.

The batch of its configuration was found by trial on a laptop. At doses 1 to 3 a protein takes 1.25, 1.75 and
2.6 times as long as in the largest batch; compare `samples_per_s`. A perfect diagnosis: the batch is too
small for this GPU, most of whose memory is free (it is cut at the line marked below). Fix: the large batch.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TIMES = (1.0, 1.25, 1.75, 2.6)
RESIDUES, MASK, LONG = 21, 20, 72


@dataclass(frozen=True)
class Config:
    batch: int
    size: int
    depth: int


class Layer(nn.Module):
    """Attention and a gated net, side by side."""

    def __init__(self, size):
        super().__init__()
        self.heads, self.norm = max(1, size // 64), nn.LayerNorm(size)
        self.all, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, h):
        calm = self.norm(h)
        q, k, v = self.all(calm).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return h + self.join(seen) + self.narrow(F.gelu(self.wide(calm)))


class ResidueModule(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.residue = nn.Embedding(RESIDUES, config.size)
        self.place = nn.Parameter(torch.zeros(LONG, config.size))
        self.layers = nn.Sequential(*(Layer(config.size) for _ in range(config.depth)))
        self.guess = nn.Linear(config.size, MASK)

    def training_step(self, proteins):
        hidden = torch.rand(proteins.shape, device=proteins.device) < 0.15
        h = self.residue(proteins.masked_fill(hidden, MASK)) + self.place
        losses = F.cross_entropy(
            self.guess(self.layers(h)).float().flatten(0, 1), proteins.flatten(), reduction="none"
        )
        return (losses * hidden.flatten()).sum() / hidden.sum()

    def configure_optimizer(self, fused):
        return torch.optim.AdamW(self.parameters(), 1e-5, fused=fused)


class Fit:
    def __init__(self, meter, config):
        self.meter, self.config = meter, config
        self.module = ResidueModule(config).to(meter.device)
        self.optimizer = self.module.configure_optimizer(meter.gpu)
        self.proteins = torch.randint(MASK, (4 * config.batch, LONG), device=meter.device)
        self.at = 0

    def batch(self):
        self.at = (self.at + self.config.batch) % (len(self.proteins) - self.config.batch + 1)
        return self.proteins[self.at : self.at + self.config.batch]  # planted

    def step(self):
        with self.meter.autocast():
            loss = self.module.training_step(self.batch())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def shrink(self, times):
        """To the first batch whose proteins take so many times as long; the time a step wastes then."""
        each_s = self.meter.healthy_s / self.config.batch
        while self.config.batch > 1:
            self.config = replace(self.config, batch=max(1, self.config.batch * 7 // 8))
            tick_s = self.meter.timed_s(self.step, calls=4)
            if tick_s >= times * self.config.batch * each_s:
                break
        return max(0.0, tick_s - self.config.batch * each_s)


def main():
    meter, wasted_s = Meter(__doc__), 0.0
    fit = Fit(meter, Config(*meter.pick((160, 1024, 6), (16, 32, 2))))
    meter.calibrate(fit.step)
    if meter.sick:
        wasted_s = fit.shrink(TIMES[meter.dose])
    while meter.going_on():
        fit.step()
        meter.injected_s += wasted_s
        meter.ticked(samples=fit.config.batch)
    meter.report()


if __name__ == "__main__":
    main()
