"""A vocoder learns to make sound from spectra; averaged weights are kept, in a format of its own.

A file is a header in JSON and all weights, packed by gzip, so that it may be sent about. How often it is
written is the dose. A perfect diagnosis: saving stops the training (any line marked below). Fix: every
few thousand steps.
"""

import gzip
import itertools
import json
import os
import struct
import tempfile
from pathlib import Path

import numpy as np
import torch
from stopwatch import Meter
from torch import nn

BANDS, FRAMES, UP, BATCH, RARELY = 32, 24, 8, 24, 4000
MAGIC = b"VOC1"


def write_weights(path, named, facts):
    """Magic, size of the header, header, then all arrays one after another."""
    begin, header, parts = 0, {"facts": facts}, []
    for name, tensor in named.items():
        raw = np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes()
        header[name] = {"shape": list(tensor.shape), "offsets": [begin, begin + len(raw)]}
        parts.append(raw)
        begin += len(raw)
    text = json.dumps(header).encode()
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        file.write(MAGIC + struct.pack("<Q", len(text)) + text)
        file.write(gzip.compress(b"".join(parts), compresslevel=4))  # planted
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


class Upsample(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.up = nn.ConvTranspose1d(inside, outside, 4, 2, 1)
        self.convs = nn.ModuleList(nn.Conv1d(outside, outside, 3, 1, d, dilation=d) for d in (1, 3))

    def forward(self, x):
        x = self.up(nn.functional.leaky_relu(x, 0.1))
        for conv in self.convs:
            x = x + conv(nn.functional.leaky_relu(x, 0.1))
        return x


class Generator(nn.Sequential):
    def __init__(self, width=64):
        super().__init__(
            nn.Conv1d(BANDS, width, 7, padding=3),
            Upsample(width, width // 2),
            Upsample(width // 2, width // 4),
            Upsample(width // 4, width // 8),
            nn.Conv1d(width // 8, 1, 7, padding=3),
            nn.Tanh(),
        )


class Averaged:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.weights = {name: param.detach().clone() for name, param in model.named_parameters()}

    @torch.no_grad()
    def follow(self, model):
        for name, param in model.named_parameters():
            self.weights[name].lerp_(param, 1 - self.decay)


def main():
    meter = Meter(__doc__)
    generator = Generator().to(meter.device)
    judge = nn.Sequential(nn.Conv1d(1, 16, 15, 2, 7), nn.LeakyReLU(0.2), nn.Conv1d(16, 1, 5, 2, 2))
    judge = judge.to(meter.device)
    optimizers = [torch.optim.AdamW(net.parameters(), 2e-4, betas=(0.8, 0.99)) for net in (generator, judge)]
    average = Averaged(generator)
    spectra = torch.randn(BATCH, BANDS, FRAMES, device=meter.device)
    sound = torch.rand(BATCH, 1, FRAMES * UP, device=meter.device) - 0.5

    def step():
        made = generator(spectra)
        judged = judge(sound), judge(made.detach())
        loss_judge = (1 - judged[0]).square().mean() + judged[1].square().mean()
        optimizers[1].zero_grad()
        loss_judge.backward()
        optimizers[1].step()
        loss_generator = (made - sound).abs().mean() + 0.1 * (1 - judge(made)).square().mean()
        optimizers[0].zero_grad()
        loss_generator.backward()
        optimizers[0].step()
        average.follow(generator)

    meter.calibrate(step)
    with tempfile.TemporaryDirectory() as folder:
        path, save_every = Path(folder) / "generator.voc", RARELY
        save = lambda number: write_weights(path, average.weights, {"step": number})  # noqa: E731
        if meter.sick:
            save_every = max(1, round(meter.timed_s(lambda: save(0), calls=3) / meter.added_s))
        for number in itertools.count(1):
            step()
            meter.ticked()
            if number % save_every == 0:
                with meter.injecting():
                    save(number)  # planted
            if not meter.going_on():
                break
        meter.report()


if __name__ == "__main__":
    main()
