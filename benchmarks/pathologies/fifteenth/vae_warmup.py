"""A variational autoencoder of glyphs, compiled; the weight of its second loss grows as training goes on.

The weight is a plain number that belongs to the module, so the compiler takes it for a constant, and it
changes after so many steps. After how many is the dose. A perfect diagnosis: the module is compiled again
and again (any line marked below). Fix: the weight is a tensor.
"""

import math

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PIXELS, LATENT, BATCH, GLYPHS = 20 * 20, 24, 128, 16
# Nobody should have to wait for a compiler of C++.
BACKEND = "aot_eager"


class Annealed:
    """From nothing to one along a cosine, in small stairs."""

    def __init__(self, stair_steps, stairs=400):
        self.stair_steps, self.stairs, self.step = stair_steps, stairs, 0

    def next(self):
        stair = min(self.step // self.stair_steps, self.stairs)
        self.step += 1
        return 0.5 - 0.5 * math.cos(math.pi * (stair + 1) / (self.stairs + 1))


class GlyphVAE(nn.Module):
    def __init__(self, hidden=448):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(PIXELS, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.mean, self.log_var = nn.Linear(hidden, LATENT), nn.Linear(hidden, LATENT)
        self.leave = nn.Sequential(nn.Linear(LATENT, hidden), nn.SiLU(), nn.Linear(hidden, PIXELS))
        self.beta = 0.0

    def set_beta(self, beta):
        self.beta = beta  # planted

    def divergence(self, mean, log_var):
        each = -0.5 * (1 + log_var - mean.square() - log_var.exp())
        return self.beta * each.sum(1).mean()  # planted

    def forward(self, glyphs, noise):
        h = self.enter(glyphs)
        mean, log_var = self.mean(h), self.log_var(h).clamp(-8, 8)
        drawn = self.leave(mean + noise * (0.5 * log_var).exp())
        missed = F.binary_cross_entropy_with_logits(drawn, glyphs, reduction="none").sum(1).mean()
        return missed + self.divergence(mean, log_var)


class TensorBetaVAE(GlyphVAE):
    def __init__(self):
        super().__init__()
        del self.beta
        self.register_buffer("beta", torch.zeros(()))

    def set_beta(self, beta):
        self.beta.fill_(beta)


class Fitting:
    def __init__(self, vae, device):
        self.vae, self.device = vae.to(device), device
        self.compiled = torch.compile(self.vae, backend=BACKEND, dynamic=False)
        self.optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3)
        self.glyphs = (torch.rand(GLYPHS, BATCH, PIXELS, device=device) < 0.2).float()

    def step(self, beta):
        self.vae.set_beta(beta)
        glyphs = self.glyphs[torch.randint(GLYPHS, ()).item()]
        noise = torch.randn(BATCH, LATENT, device=self.device)
        loss = self.compiled(glyphs, noise)  # planted
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    meter = Meter(__doc__)
    torch._dynamo.config.recompile_limit = 2000
    torch._dynamo.config.accumulated_recompile_limit = 20_000
    fitting = Fitting(TensorBetaVAE(), meter.device)
    meter.calibrate(lambda: fitting.step(0.0))
    stair_steps = 25
    if meter.sick:
        fitting, betas = Fitting(GlyphVAE(), meter.device), iter(range(2, 99))
        fitting.step(1.5)
        other_s = meter.timed_s(lambda: fitting.step(next(betas) + 0.5), calls=5) - meter.healthy_s
        stair_steps = max(1, round(other_s / meter.added_s))
    schedule = Annealed(stair_steps)
    while meter.going_on():
        fitting.step(schedule.next())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
