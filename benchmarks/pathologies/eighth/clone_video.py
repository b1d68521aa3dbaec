"""Behaviour cloning from video: each clip is one file on a share, whose server allows few requests a second.

How long a request has to wait for its turn is the dose. A perfect diagnosis: the workers wait for storage and
use no core (the read marked below). Fix: the clips on the local disk.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAMES, CONTROLS, FILES = 4, 3, 32


class LocalFiles:
    def __init__(self, folder):
        self.folder = folder

    def read(self, name):
        return (self.folder / name).read_bytes()


class Share(LocalFiles):
    """The same files behind a server that makes each request wait."""

    def __init__(self, folder, wait_s):
        super().__init__(folder)
        self.wait_s = wait_s

    def read(self, name):
        time.sleep(self.wait_s)  # planted
        return super().read(name)


class Drives(Dataset):
    def __init__(self, files, side):
        self.files, self.side = files, side

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        number = index % FILES
        pixels = np.frombuffer(self.files.read(f"drive{number:02d}.rgb"), np.uint8)
        steering = np.full(CONTROLS, number / FILES, np.float32)
        return torch.from_numpy(pixels.reshape(3 * FRAMES, self.side, self.side).copy()), steering


class Driver(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3 * FRAMES, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.controls = nn.Linear(width, CONTROLS)

    def forward(self, clips):
        h = self.stem(clips)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.controls(h.mean((2, 3))).float().tanh()


def record(folder, side):
    rng = np.random.default_rng(0)
    for number in range(FILES):
        pixels = rng.integers(0, 256, 3 * FRAMES * side * side, np.uint8)
        Path(folder, f"drive{number:02d}.rgb").write_bytes(pixels.tobytes())
    return LocalFiles(Path(folder))


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (8, 32))
    net = Driver(*meter.pick((384, 6), (64, 6))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters(), 1e-5, fused=meter.gpu)

    def imitate(clips, controls):
        clips = clips.to(meter.device, non_blocking=True).float().div_(255)
        clips = clips.contiguous(memory_format=torch.channels_last)
        controls = controls.to(meter.device, non_blocking=True)
        with meter.autocast():
            guess = net(clips)
        loss = F.smooth_l1_loss(guess, controls)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    dark = torch.zeros(batch, 3 * FRAMES, side, side, dtype=torch.uint8)
    blank = blanks(meter, dark, torch.zeros(batch, CONTROLS))
    meter.calibrate(lambda: imitate(*blank))
    workers = meter.pick(8, 2)
    with tempfile.TemporaryDirectory() as folder:
        files = record(folder, side)
        if meter.sick:
            files = Share(files.folder, workers * meter.beside_s / batch)
        options = {"num_workers": workers, "pin_memory": meter.gpu}
        stream = iter(DataLoader(Drives(files, side), batch, **options))
        for _ in range(workers):
            imitate(*next(stream))
        while meter.going_on():
            with meter.injecting():
                clips = next(stream)
            imitate(*clips)
            meter.ticked()
        meter.report(excess=meter.gpu)
        del stream


if __name__ == "__main__":
    main()
