"""Imitation of recorded motions: for each body the joints between two key poses are looked up in a library.

How many bodies are looked up in a step is the dose. A perfect diagnosis: a hot line of Python, which turns
one joint at a time on the training thread (marked below). Fix: all joints of all bodies at once, by NumPy.
"""

import bisect
import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

JOINTS, KEYS = 12, 60


def slerp(a, b, part):
    """Between two rotations, given as quaternions."""
    dot = min(1.0, max(-1.0, sum(x * y for x, y in zip(a, b, strict=True))))
    sign = -1.0 if dot < 0 else 1.0
    angle = math.acos(abs(dot))
    if angle < 1e-4:
        return a
    near, far = math.sin((1 - part) * angle), sign * math.sin(part * angle)
    return tuple((near * x + far * y) / math.sin(angle) for x, y in zip(a, b, strict=True))  # planted


class MotionLibrary:
    def __init__(self):
        rng = np.random.default_rng(0)
        poses = np.cumsum(0.2 * rng.standard_normal((KEYS, JOINTS, 4)), 0) + 1.0
        self.poses = (poses / np.linalg.norm(poses, axis=-1, keepdims=True)).astype(np.float32)
        self.times = np.cumsum(rng.uniform(0.02, 0.1, KEYS)).tolist()
        self.keys = [[tuple(joint) for joint in pose] for pose in self.poses.tolist()]
        self.rng = rng

    def moments(self, bodies):
        return self.rng.uniform(self.times[0], self.times[-1] - 0.01, bodies)

    def look_up(self, moments):
        found = []
        for moment in moments.tolist():
            key = bisect.bisect_right(self.times, moment) - 1
            part = (moment - self.times[key]) / (self.times[key + 1] - self.times[key])
            joints = zip(self.keys[key], self.keys[key + 1], strict=True)
            found.append([slerp(before, after, part) for before, after in joints])
        return np.array(found, np.float32)

    def look_up_all(self, moments):
        times = np.array(self.times)
        keys = np.searchsorted(times, moments, side="right") - 1
        part = ((moments - times[keys]) / (times[keys + 1] - times[keys]))[:, None, None]
        before, after = self.poses[keys], self.poses[keys + 1]
        dot = (before * after).sum(-1, keepdims=True).clip(-1, 1)
        angle = np.maximum(np.arccos(np.abs(dot)), 1e-4)
        far = np.where(dot < 0, -1, 1) * np.sin(part * angle)
        return ((np.sin((1 - part) * angle) * before + far * after) / np.sin(angle)).astype(np.float32)


class Tracker(nn.Module):
    """Guesses the torques that bring a body to the pose."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.torque = nn.Linear(8 * JOINTS, width), nn.Linear(width, JOINTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, pose, wanted):
        h = self.enter(torch.cat([pose, wanted], 1))
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.torque(h).float()


class Imitation:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.tracker = Tracker(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.tracker.parameters(), 1e-5, fused=meter.gpu)
        self.poses = torch.randn(rows, 4 * JOINTS, device=meter.device)
        self.wanted = torch.zeros_like(self.poses)

    def aim(self, found):
        fresh = torch.from_numpy(found).flatten(1)[: len(self.wanted)]
        fresh = fresh.pin_memory() if self.meter.gpu else fresh
        self.wanted[: len(fresh)].copy_(fresh, non_blocking=True)

    def step(self):
        with self.meter.autocast():
            torque = self.tracker(self.poses, self.wanted)
        way = (self.wanted - self.poses).unflatten(1, (JOINTS, 4)).mean(-1)
        loss = F.mse_loss(torque, way) + 1e-3 * torque.abs().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    library, imitation = MotionLibrary(), Imitation(meter)
    meter.calibrate(lambda: (imitation.aim(library.look_up_all(library.moments(4))), imitation.step()))
    bodies = 4
    if meter.dose:
        some = library.moments(50)
        bodies = max(4, round(meter.host_s * 50 / meter.timed_s(lambda: library.look_up(some), calls=5)))
    look_up = library.look_up if meter.sick else library.look_up_all
    while meter.going_on():
        with meter.injecting():
            found = look_up(library.moments(bodies))
        imitation.aim(found)
        imitation.step()
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
