"""Healthy control: wind over hills, emulated; a thread compresses and writes fields that were drawn before.

Tempting: a second thread that is busy for a part of the time, and files that are written; but `zlib` lets go
of the interpreter while it works, and nobody waits for the thread. A perfect diagnosis: healthy, nothing to
mend. The dose is taken and does nothing; there is no planted line.
"""

import tempfile
import threading
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

HEIGHTS, PERIOD_S = 48, 0.5


class Archive(threading.Thread):
    """A field of some hundred kilobytes in each period, at a low level."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.over, self.written = Path(folder), threading.Event(), 0
        self.field = np.random.default_rng(0).integers(0, 16, 600_000, np.uint8).tobytes()

    def run(self):
        while not self.over.wait(PERIOD_S):
            packed = zlib.compress(self.field, 1)
            (self.folder / f"field-{self.written % 4}.z").write_bytes(packed)
            self.written += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


class WindNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(HEIGHTS, width), nn.Linear(width, HEIGHTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, wind):
        h = self.norm(self.enter(wind))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return wind + self.leave(h).float()


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 128)
    net = WindNet(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    wind = torch.randn(rows, HEIGHTS, device=meter.device)
    after = 0.9 * wind + 0.1 * wind.roll(1, 1)

    def tick():
        with meter.autocast():
            guess = net(wind)
        loss = F.mse_loss(guess, after)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(tick)
    with tempfile.TemporaryDirectory() as folder, Archive(folder):
        while meter.going_on():
            tick()
            meter.ticked()
        meter.report()


if __name__ == "__main__":
    main()
