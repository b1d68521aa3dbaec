"""A VQ autoencoder whose codebook was made apart from the rest, and never moved to the GPU.

How many codes there are is the dose. A perfect diagnosis: the nearest codes are looked up on the CPU in
every step (marked below) while the GPU waits for them. Fix: the codebook moves with the rest.
"""

from functools import partial

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LATENT, PIXELS = 64, 192


class Codebook(nn.Module):
    def __init__(self, codes):
        super().__init__()
        self.register_buffer("codes", torch.randn(codes, LATENT))

    @torch.no_grad()
    def forward(self, latent):
        nearest = torch.cdist(latent, self.codes).argmin(1)
        return self.codes[nearest]


class Tower(nn.Module):
    def __init__(self, n_in, width, depth, n_out):
        super().__init__()
        self.enter, self.leave = nn.Linear(n_in, width), nn.Linear(width, n_out)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        h = self.enter(x)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h)


class Autoencoder:
    def __init__(self, meter):
        self.meter, (width, depth, rows) = meter, meter.pick((4096, 3, 8192), (64, 1, 64))
        self.encoder = Tower(PIXELS, width, depth, LATENT).to(meter.device)
        self.decoder = Tower(LATENT, width, depth, PIXELS).to(meter.device)
        self.codebook = Codebook(16).to(meter.device)
        weights = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.optimizer = torch.optim.AdamW(weights, lr=1e-5, fused=meter.gpu)
        self.patches = torch.rand(rows, PIXELS, device=meter.device)

    def quantized(self, latent):
        found = self.codebook(latent.detach().to(self.codebook.codes.device))  # planted
        return latent + (found.to(latent.device) - latent).detach()

    def step(self):
        with self.meter.autocast():
            latent = self.encoder(self.patches).float()
        quantized = self.quantized(latent)
        with self.meter.autocast():
            drawn = self.decoder(quantized)
        loss = F.mse_loss(drawn.float(), self.patches) + 0.25 * F.mse_loss(latent, quantized.detach())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def code_s(meter, rows):
    latent = torch.randn(rows, LATENT)
    few, many = (meter.timed_s(partial(Codebook(n), latent), calls=5) for n in (256, 1280))
    return max(1e-9, (many - few) / 1024)


def main():
    meter = Meter(__doc__)
    model = Autoencoder(meter)
    meter.calibrate(model.step)
    if meter.dose:
        codes = max(16, round(meter.added_s / code_s(meter, len(model.patches))))
        model.codebook = Codebook(codes)
        if meter.fixed:
            model.codebook.to(meter.device)
    while meter.going_on():
        model.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
