"""A DCGAN that writes a sheet of previews as PNG after every step, on the training thread.

A perfect diagnosis: a slow line of Python (compressing the pictures, marked below) while the GPU waits.
Fix: a sheet every 200th step.
"""

import tempfile
import time
from pathlib import Path

import torch
from PIL import Image
from stopwatch import Meter
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


def generator(nz, ngf):
    return nn.Sequential(
        nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False), nn.BatchNorm2d(ngf * 4), nn.ReLU(True),
        nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf * 2), nn.ReLU(True),
        nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False), nn.BatchNorm2d(ngf), nn.ReLU(True),
        nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


def discriminator(ndf):
    return nn.Sequential(
        nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 2), nn.LeakyReLU(0.2, True),
        nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False), nn.BatchNorm2d(ndf * 4), nn.LeakyReLU(0.2, True),
        nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False), nn.Flatten(0),
    )  # fmt: skip


def to_pixels(images):
    """Dithered, so that flat parts show no bands."""
    return ((images.float() + 1) * 112 + 31 * torch.rand_like(images.float())).byte().cpu()


class Previews:
    def __init__(self, folder):
        self.folder, self.tiles = Path(folder), 1

    def write(self, pixels, name):
        sheet = Image.new("RGB", (32 * self.tiles, 32))
        for column in range(self.tiles):
            tile = pixels[column % len(pixels)].permute(1, 2, 0).contiguous().numpy()
            sheet.paste(Image.fromarray(tile), (32 * column, 0))
        sheet.save(self.folder / f"{name}.png", compress_level=9)  # planted


def main():
    meter = Meter(__doc__)
    nz, width, bs = meter.pick((128, 256, 384), (16, 4, 64))
    netG = generator(nz, width).to(meter.device, memory_format=torch.channels_last)
    netD = discriminator(width).to(meter.device, memory_format=torch.channels_last)
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=meter.gpu)
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=meter.gpu)
    real = torch.rand(bs, 3, 32, 32, device=meter.device).to(memory_format=torch.channels_last)
    ones, zeros = torch.ones(bs, device=meter.device), torch.zeros(bs, device=meter.device)

    def step():
        with meter.autocast():
            fake = netG(torch.randn(bs, nz, 1, 1, device=meter.device))
            errD = bce(netD(real), ones) + bce(netD(fake.detach()), zeros)
        optD.zero_grad()
        errD.backward()
        optD.step()
        with meter.autocast():
            errG = bce(netD(fake), ones)
        optG.zero_grad()
        errG.backward()
        optG.step()
        return fake.detach()

    meter.calibrate(step)
    with tempfile.TemporaryDirectory() as folder:
        previews = Previews(folder)
        first = to_pixels(step())
        previews.tiles = 64
        for _ in range(3):
            tile_s = meter.timed_s(lambda: previews.write(first, "first")) / previews.tiles
            previews.tiles = max(1, round(meter.added_s / tile_s))
        while meter.going_on():
            fake = step()
            if meter.sick or meter.ticks % 200 == 199:
                pixels = to_pixels(fake[: previews.tiles])
                begin_s = time.perf_counter()
                previews.write(pixels, f"step{meter.ticks % 100:02}")
                meter.injected_s += time.perf_counter() - begin_s if meter.sick else 0.0
            meter.ticked()
        meter.report()


if __name__ == "__main__":
    main()
