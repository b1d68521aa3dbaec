"""Super-resolution with an adversary; a rotation keeps the last few states of both nets, safe on the disk.

How often it does is the dose. A perfect diagnosis: the training stands still while the state is written (the
line marked below). Fix: a state at the end of the run.
"""

import os
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class Rotation:
    """Never a broken file: written aside, brought to the disk, renamed; the oldest goes."""

    def __init__(self, folder, keep=3):
        self.folder, self.keep, self.names = folder, keep, []

    def add(self, name, state):
        aside = self.folder / f"{name}.part"
        with aside.open("wb") as file:
            torch.save(state, file)  # planted
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.folder / f"{name}.pt")
        self.names.append(name)
        if len(self.names) > self.keep:
            (self.folder / f"{self.names.pop(0)}.pt").unlink(missing_ok=True)


def tower(width, depth, *tail):
    layers = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.LeakyReLU(0.2), nn.Conv2d(width, width, 3, padding=1)]
    return nn.Sequential(*layers, *tail)


class SuperResolution:
    def __init__(self, meter):
        self.meter, (batch, side) = meter, meter.pick((48, 32), (3, 12))
        width, depth = meter.pick((256, 6), (48, 4))
        self.painter = tower(width, depth, nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))
        self.critic = tower(
            width // 2, depth, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width // 2, 1)
        )
        for net in (self.painter, self.critic):
            net.to(meter.device, memory_format=torch.channels_last)
        self.paints = torch.optim.Adam(self.painter.parameters(), 1e-5, fused=meter.gpu)
        self.judges = torch.optim.Adam(self.critic.parameters(), 1e-5, fused=meter.gpu)
        self.small = torch.rand(batch, 3, side, side, device=meter.device)
        self.large = torch.rand(batch, 3, 2 * side, 2 * side, device=meter.device)
        # What was painted earlier: the critic must not forget it.
        self.pool = torch.rand(meter.pick(480, 900), *self.large.shape[1:], device=meter.device)
        self.at = 0

    def earlier(self, painted):
        rows = slice(self.at, self.at + len(painted))
        old = self.pool[rows].clone()
        self.pool[rows] = painted
        self.at = (self.at + len(painted)) % len(self.pool)
        return old

    def step(self):
        with self.meter.autocast():
            painted = self.painter(self.small)
            judged = self.critic(torch.cat([self.large, self.earlier(painted.detach())])).float()
        real, fake = judged.chunk(2)
        worse = F.softplus(-real).mean() + F.softplus(fake).mean()
        self.judges.zero_grad(set_to_none=True)
        worse.backward()
        self.judges.step()
        with self.meter.autocast():
            doubt = F.softplus(-self.critic(painted).float()).mean()
        loss = F.l1_loss(painted.float(), self.large) + 0.01 * doubt
        self.paints.zero_grad(set_to_none=True)
        loss.backward()
        self.paints.step()

    def state_dict(self):
        parts = {"painter": self.painter, "critic": self.critic, "paints": self.paints, "judges": self.judges}
        return {"pool": self.pool, **{name: part.state_dict() for name, part in parts.items()}}


def main():
    meter = Meter(__doc__)
    training = SuperResolution(meter)
    meter.calibrate(training.step)
    with tempfile.TemporaryDirectory() as folder:
        rotation, every = Rotation(Path(folder)), 100_000
        if meter.sick:
            once_s = meter.timed_s(lambda: rotation.add("trial", training.state_dict()), calls=10)
            every = max(1, round(once_s / meter.added_s))
        while meter.going_on():
            training.step()
            meter.ticked()
            if meter.ticks % every == 0:
                with meter.injecting():
                    rotation.add(f"step-{meter.ticks}", training.state_dict())
        meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
