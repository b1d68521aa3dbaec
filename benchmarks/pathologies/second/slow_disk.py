"""An image regressor reading raw files over a slow mount: each read waits some milliseconds.

A perfect diagnosis: the training waits for batches; the workers are there but wait too, in the read of their
files and not on a core: the storage is slow. Fix: sixteen readers at once instead of four (latency overlaps).
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORKERS = 4


class SlowMount:
    """A folder that answers late, as a network share does."""

    def __init__(self, folder, latency_s):
        self.folder, self.latency_s = Path(folder), latency_s

    def read(self, name):
        with open(self.folder / name, "rb") as file:
            time.sleep(self.latency_s)  # planted
            return file.read()


class RawImages(Dataset):
    def __init__(self, mount, names, side):
        self.mount, self.names, self.side = mount, names, side

    def __len__(self):
        return 2_000_000

    def __getitem__(self, index):
        raw = self.mount.read(self.names[index % len(self.names)])
        pixels = np.frombuffer(raw, dtype=np.uint8).reshape(3, self.side, self.side)
        return torch.from_numpy(pixels.copy()), torch.tensor(float(pixels[0, 0, 0]) / 255)


def write_files(folder, count, side):
    rng = np.random.default_rng(1)
    names = [f"{number:04d}.raw" for number in range(count)]
    for name in names:
        Path(folder, name).write_bytes(rng.integers(0, 256, (3, side, side), dtype=np.uint8).tobytes())
    return names


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(), nn.Conv2d(width, width, 3, padding=1)
        )

    def forward(self, x):
        return x + self.body(x)


def main():
    meter = Meter(__doc__)
    side, batch, width = meter.pick((96, 64, 384), (32, 16, 16))
    blocks = [Residual(width) for _ in range(meter.pick(5, 2))]
    model = nn.Sequential(nn.Conv2d(3, width, 4, stride=2), *blocks, nn.AdaptiveAvgPool2d(4))
    model = nn.Sequential(model, nn.Flatten(), nn.Linear(16 * width, 1))
    model = model.to(meter.device, memory_format=torch.channels_last)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, fused=meter.gpu)

    def step(pixels, target):
        pixels = pixels.to(meter.device, non_blocking=True).float() / 127.5 - 1
        with meter.autocast():
            error = model(pixels).squeeze(1) - target.to(meter.device, non_blocking=True)
        adam.zero_grad()
        error.float().square().mean().backward()
        adam.step()

    still = (torch.zeros(batch, 3, side, side, dtype=torch.uint8), torch.zeros(batch))
    meter.calibrate(lambda: step(*still))
    with tempfile.TemporaryDirectory() as folder:
        mount = SlowMount(folder, WORKERS * meter.beside_s / batch)
        data = RawImages(mount, write_files(folder, 200, side), side)
        workers = 16 if meter.fixed else WORKERS
        loader = DataLoader(data, batch, shuffle=True, num_workers=workers, pin_memory=meter.gpu)
        for number, (pixels, target) in enumerate(loader):
            if number and not meter.going_on():
                break
            step(pixels, target)
            if number:
                meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
