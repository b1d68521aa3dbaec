"""Depth from a single picture; an observer keeps the whole state of the run as compressed pickles.

How often it does is the dose. A perfect diagnosis: the training stands still while the state is written
(marked below). Fix: a pickle at the end of the run.
"""

import gzip
import pickle
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class Observable:
    """Who wants to know of a step registers for it."""

    def __init__(self):
        self.observers = []

    def on_step(self, observer):
        self.observers.append(observer)

    def notify(self, step):
        for observer in self.observers:
            observer(step)


class DepthNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.down = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.up = nn.ConvTranspose2d(width, 1, 4, stride=4)

    def forward(self, pictures):
        h = self.down(pictures)
        for conv in self.body:
            h = h + F.elu(conv(h))
        return F.softplus(self.up(h).float())


def scale_free(guess, truth):
    """The loss does not mind a common factor."""
    off = guess.clamp_min(1e-3).log() - truth.clamp_min(1e-3).log()
    return off.square().mean() - 0.5 * off.mean().square()


class DepthRun(Observable):
    def __init__(self, meter):
        super().__init__()
        self.meter, (self.batch, side) = meter, meter.pick((32, 256), (4, 64))
        self.net = DepthNet(*meter.pick((256, 8), (64, 4))).to(
            meter.device, memory_format=torch.channels_last
        )
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.pictures = torch.rand(2 * self.batch, 3, side, side, device=meter.device)
        self.depths = torch.rand(2 * self.batch, 1, side, side, device=meter.device) + 0.1

    def state(self):
        tensors = {name: value.cpu().numpy() for name, value in self.net.state_dict().items()}
        return {"net": tensors, "steps": self.meter.ticks}

    def step(self):
        start = int(torch.randint(self.batch, ()))
        rows = slice(start, start + self.batch)
        with self.meter.autocast():
            guess = self.net(self.pictures[rows].contiguous(memory_format=torch.channels_last))
        loss = scale_free(guess, self.depths[rows])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def run(self):
        while self.meter.going_on():
            self.step()
            self.meter.ticked()
            self.notify(self.meter.ticks)


class Pickles:
    def __init__(self, run, folder, every):
        self.run, self.folder, self.every = run, folder, every

    def write(self, name):
        with gzip.open(self.folder / name, "wb", compresslevel=1) as file:
            pickle.dump(self.run.state(), file)  # planted

    def __call__(self, step):
        if step % self.every == 0:
            with self.run.meter.injecting():
                self.write(f"run-{step // self.every % 4}.pkl.gz")


def main():
    meter = Meter(__doc__)
    run = DepthRun(meter)
    meter.calibrate(run.step)
    with tempfile.TemporaryDirectory() as folder:
        pickles = Pickles(run, Path(folder), every=100_000)
        if meter.sick:
            once_s = meter.timed_s(lambda: pickles.write("first.pkl.gz"), calls=2)
            pickles.every = max(1, round(once_s / meter.added_s))
        run.on_step(pickles)
        run.run()
        meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
