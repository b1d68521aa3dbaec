"""Instruments in surgery, segmented with few labelled frames: an epoch is over before it has begun.

How few frames there are is the dose. A perfect diagnosis: the loader's workers are started anew at each
epoch, and the training waits (at the loader or the loop, both marked). Fix: `persistent_workers=True`.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, TOOLS = 128, 6


class LabelledFrames(Dataset):
    def __init__(self, count):
        rng = np.random.default_rng(0)
        self.frames = rng.integers(0, 256, (8, 3, SIDE, SIDE), np.uint8)
        self.tools = rng.integers(0, TOOLS, (8, SIDE // 4, SIDE // 4))
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        flip = 1 if index % 2 else -1
        frame, tools = self.frames[index % 8, :, :, ::flip], self.tools[index % 8, :, ::flip]
        return torch.from_numpy(frame.copy()), torch.from_numpy(tools.copy())


class ToolNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.tools = nn.Conv2d(width, TOOLS, 1)

    def forward(self, frames):
        h = self.stem(frames)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.tools(h).float()


class Training:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(32, 2)
        channels = {"memory_format": torch.channels_last}
        self.net = ToolNet(*meter.pick((512, 8), (48, 5))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def loader(self, batches, stay):
        workers = self.meter.pick(6, 1)
        options = {"num_workers": workers, "pin_memory": self.meter.gpu, "persistent_workers": stay}
        frames = LabelledFrames(batches * self.batch)
        return DataLoader(frames, self.batch, shuffle=True, **options)  # planted

    def learn(self, frames, tools):
        frames = frames.to(self.meter.device, non_blocking=True).float().div_(255)
        frames = frames.contiguous(memory_format=torch.channels_last)
        tools = tools.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            scores = self.net(frames)
        loss = F.cross_entropy(scores, tools)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def run(self, loader):
        while self.meter.going_on():
            for frames, tools in loader:  # planted
                self.learn(frames, tools)
                self.meter.ticked()
                if not self.meter.going_on():
                    break


def times_s(training, blank):
    """What an epoch's start costs, and what a step takes of the host, which then is ahead of the GPU."""
    begin_s = time.perf_counter()
    for _ in range(4):
        list(training.loader(1, stay=False))
    start_s = (time.perf_counter() - begin_s) / 4
    training.meter.sync()
    begin_s = time.perf_counter()
    for _ in range(3):
        training.learn(*blank)
    return start_s, (time.perf_counter() - begin_s) / 3


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    frames = torch.zeros(training.batch, 3, SIDE, SIDE, dtype=torch.uint8)
    tools = torch.zeros(training.batch, SIDE // 4, SIDE // 4, dtype=torch.long)
    blank = blanks(meter, frames, tools)
    meter.calibrate(lambda: training.learn(*blank))
    batches = 60
    if meter.dose:
        start_s, launch_s = times_s(training, blank)
        batches = max(2, round(start_s / (meter.healthy_s + meter.added_s - launch_s)))
    training.run(training.loader(batches, stay=not meter.sick))
    meter.report(excess=True)


if __name__ == "__main__":
    main()
