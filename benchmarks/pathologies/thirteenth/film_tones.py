"""Old films are coloured by a convolutional net; first all frames get the tones of some film stock.

Tones are a chain of small formulas, each a few passes over all pixels of all frames, though a pixel has
only 256 values. How many formulas there are is the dose. A perfect diagnosis: elementwise passes over large
tensors, bound by the GPU's memory (any line marked below). Fix: the chain for 256 values, and then one
look-up.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class FilmStock:
    """Contrast, shoulder and grain, again and again, as if copied from film to film."""

    def __init__(self, copies):
        self.copies = [(0.02 * n % 0.3, 1.0 + 0.01 * (n % 5)) for n in range(copies)]

    def tones(self, light):
        for lift, gamma in self.copies:
            light = lift + (1 - lift) * light  # planted
            light = light.clamp(0, 1).pow(gamma)  # planted
            light = light * light * (3 - 2 * light)  # planted
        return light

    def of_pixels(self, frames):
        return self.tones(frames.float() / 255)

    def of_values(self, frames):
        table = self.tones(torch.arange(256, device=frames.device) / 255)
        return table[frames.int()]


class ColourNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.colour = nn.Conv2d(1, width, 16, stride=16), nn.Conv2d(width, 3, 1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, light):
        h = self.enter(light).contiguous(memory_format=torch.channels_last)
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.colour(h).float()


class Archive:
    def __init__(self, meter):
        self.meter, (frames, side) = meter, meter.pick((256, 256), (3, 96))
        net = ColourNet(*meter.pick((384, 7), (48, 3)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.frames = torch.randint(256, (frames, 1, side, side), dtype=torch.uint8, device=meter.device)
        self.colours = torch.rand(frames, 3, side // 16, side // 16, device=meter.device)

    def step(self, toned):
        with torch.no_grad():
            light = toned(self.frames)
        with self.meter.autocast():
            guess = self.net(light)
        loss = F.smooth_l1_loss(guess, self.colours)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def copy_s(meter, archive):
    stock = FilmStock(8)
    return meter.timed_s(lambda: stock.of_pixels(archive.frames), calls=6) / 8


def main():
    meter, copies = Meter(__doc__), 1
    archive, stock = Archive(meter), FilmStock(1)
    meter.calibrate(lambda: archive.step(stock.of_values))
    if meter.dose:
        copies = max(1, round(meter.added_s / copy_s(meter, archive)))
    stock = FilmStock(copies)
    toned = stock.of_pixels if meter.sick else stock.of_values
    while meter.going_on():
        archive.step(toned)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
