"""Latent diffusion on pictures of moss; the autoencoder, frozen, is upcast as its card says, to fp32.

A flag for reproducible runs has switched TF32 off as well. How many pictures are encoded in a step is the
dose. A perfect diagnosis: convolutions in fp32 without tensor cores (marked below). Fix: the encoder under
autocast.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LATENT = 4


def encoder(width):
    """Pictures to latents, eight times smaller."""
    return nn.Sequential(
        nn.Conv2d(3, width, 4, stride=4),
        nn.SiLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(width, LATENT, 2, stride=2),
    ).requires_grad_(False)


class Latents:
    def __init__(self, vae, autocast):
        self.vae, self.autocast = vae, autocast

    @torch.no_grad()
    def upcast(self, pictures):
        return self.vae(pictures.float())  # planted

    @torch.no_grad()
    def mixed(self, pictures):
        with self.autocast():
            return self.vae(pictures).float()


class Denoiser(nn.Module):
    """Latents as rows, one for each place, and how noisy they are."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(LATENT, width), nn.Linear(width, LATENT)
        self.level = nn.Linear(1, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, rows, level):
        h = self.enter(rows) + self.level(level)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Diffusion:
    def __init__(self, meter):
        self.meter, self.rows, side, width = meter, *meter.pick((8192, 128, 256), (64, 32, 8))
        channels = {"memory_format": torch.channels_last}
        vae = encoder(width).to(meter.device, **channels)
        self.latents = Latents(vae, meter.autocast)
        self.net = Denoiser(*meter.pick((4096, 5), (64, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.moss = torch.rand(8, 3, side, side, device=meter.device)

    def show(self, count):
        return self.moss.repeat(-(-count // 8), 1, 1, 1)[:count].contiguous(memory_format=torch.channels_last)

    def step(self, encode, pictures):
        rows = encode(pictures).permute(0, 2, 3, 1).flatten(0, 2)
        rows = rows.repeat(-(-self.rows // len(rows)), 1)[: self.rows]
        level, noise = torch.rand_like(rows[:, :1]), torch.randn_like(rows)
        with self.meter.autocast():
            guess = self.net(torch.lerp(rows, noise, level), level)
        loss = F.mse_loss(guess, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def picture_s(run):
    some, more = run.show(16), run.show(64)
    times = [run.meter.timed_s(lambda p=p: run.latents.upcast(p), calls=6) for p in (some, more)]
    return max(1e-7, (times[1] - times[0]) / 48)


def main():
    meter = Meter(__doc__)
    torch.backends.cudnn.allow_tf32 = False
    run = Diffusion(meter)
    latents = run.latents
    few = run.show(1)
    meter.calibrate(lambda: run.step(latents.mixed, few))
    pictures = few
    if meter.dose:
        pictures = run.show(max(1, round(meter.added_s / picture_s(run))))
    encode = latents.upcast if meter.sick else latents.mixed
    while meter.going_on():
        run.step(encode, pictures)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
