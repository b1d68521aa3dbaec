"""Humanoids learn to walk like recorded motion: tensors for all robots, a policy, and a discriminator.

Between any two steps of the simulation, poses are looked up in the recording: keyframes are searched and
angles blended, robot by robot and joint by joint. For how many robots is the dose. A perfect diagnosis:
hot lines of Python on the training thread (any line marked below). Fix: the same blending over tensors.
"""

import bisect
import math
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

ROBOTS, JOINTS, KEYFRAMES, HORIZON, PERIOD = 48, 12, 40, 12, 2.0


class MotionClip:
    """Keyframes at uneven times; angles wrap around."""

    def __init__(self):
        steps = torch.rand(KEYFRAMES, generator=torch.Generator().manual_seed(0)) + 0.2
        self.times = (steps.cumsum(0) - steps[0]) / steps.sum() * PERIOD
        phase = self.times[:, None] * math.pi + torch.arange(JOINTS) * 0.7
        self.angles = torch.remainder(2 * phase.sin() + math.pi, 2 * math.pi) - math.pi


class MotionLibrary:
    def __init__(self, clip):
        self.times, self.angles = clip.times.tolist(), clip.angles.tolist()

    def surrounding(self, time):
        after = bisect.bisect_right(self.times, time) % len(self.times)
        return after - 1, after

    @staticmethod
    def wrapped(angle):
        return math.atan2(math.sin(angle), math.cos(angle))

    def blend(self, one, other, weight):
        return self.wrapped(one + weight * self.wrapped(other - one))  # planted

    def pose_at(self, time):
        before, after = self.surrounding(time)
        span = (self.times[after] - self.times[before]) % PERIOD or 1e-6
        weight = min(1.0, ((time - self.times[before]) % PERIOD) / span)
        pairs = zip(self.angles[before], self.angles[after], strict=True)
        return [self.blend(one, other, weight) for one, other in pairs]  # planted

    def poses(self, times):
        return torch.tensor([self.pose_at(time) for time in times.tolist()])  # planted


class TensorLibrary:
    def __init__(self, clip):
        self.times, self.angles = clip.times, clip.angles

    def poses(self, times):
        times = times.cpu()
        after = torch.searchsorted(self.times, times, right=True) % KEYFRAMES
        span = (self.times[after] - self.times[after - 1]).remainder(PERIOD).clamp(min=1e-6)
        weight = ((times - self.times[after - 1]).remainder(PERIOD) / span).clamp(max=1)[:, None]
        one, other = self.angles[after - 1], self.angles[after]
        way = torch.remainder(other - one + math.pi, 2 * math.pi) - math.pi
        return torch.remainder(one + weight * way + math.pi, 2 * math.pi) - math.pi


class Humanoids:
    def __init__(self, device):
        self.angle, self.speed = torch.zeros(2, ROBOTS, JOINTS, device=device).unbind(0)
        self.phase = torch.rand(ROBOTS, device=device) * PERIOD

    def observe(self):
        clock = self.phase * 2 * math.pi / PERIOD
        return torch.cat([self.angle, self.speed, clock.sin()[:, None], clock.cos()[:, None]], 1)

    def step(self, target):
        self.speed = 0.9 * self.speed + 0.2 * (target - self.angle) - 0.02 * self.angle.sin()
        self.angle = (self.angle + 0.1 * self.speed).clamp(-3, 3)
        self.phase = (self.phase + 1 / 30).remainder(PERIOD)


def mlp(inside, outside, hidden):
    return nn.Sequential(nn.Linear(inside, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU()).append(
        nn.Linear(hidden, outside)
    )


class AmpRunner:
    def __init__(self, meter):
        self.meter, self.env = meter, Humanoids(meter.device)
        self.policy = mlp(2 * JOINTS + 2, JOINTS, 160).to(meter.device)
        self.discriminator = mlp(2 * JOINTS, 1, 128).to(meter.device)
        self.log_std = nn.Parameter(torch.full((JOINTS,), -1.0, device=meter.device))
        self.optimizer = torch.optim.Adam([*self.policy.parameters(), self.log_std], lr=3e-4)
        self.d_optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=1e-4, weight_decay=1e-3)

    @torch.no_grad()
    def rollout(self, library, watched, spent):
        rows, shown, robots = [], [], torch.arange(watched) % ROBOTS
        for _ in range(HORIZON):
            seen, before = self.env.observe(), self.env.angle
            target = self.policy(seen) + self.log_std.exp() * torch.randn_like(before)
            self.env.step(target)
            times = self.env.phase[robots]
            with spent():
                after = library.poses(times)
            shown.append(after[:ROBOTS].to(before.device))
            rows.append((seen, target, torch.cat([before, self.env.angle], 1)))
        real = torch.cat([torch.cat(shown[:-1]), torch.cat(shown[1:])], 1)
        return [torch.cat(part) for part in zip(*rows, strict=True)], real

    def iterate(self, library, watched, spent=nullcontext):
        (seen, target, moved), real = self.rollout(library, watched, spent)
        judged_real, judged = self.discriminator(real), self.discriminator(moved)
        d_loss = F.mse_loss(judged_real, torch.ones_like(judged_real)) + (judged + 1).square().mean()
        self.d_optimizer.zero_grad()
        d_loss.backward()
        self.d_optimizer.step()
        reward = (1 - 0.25 * (judged.detach() - 1).square()).clamp(min=0)[:, 0]
        gain = (reward - reward.mean()) / (reward.std() + 1e-6)
        policy = torch.distributions.Normal(self.policy(seen), self.log_std.exp())
        loss = -(policy.log_prob(target).sum(1).clamp(min=-50) * gain).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    meter, clip, watched = Meter(__doc__), MotionClip(), 4
    runner = AmpRunner(meter)
    meter.calibrate(lambda: runner.iterate(TensorLibrary(clip), watched))
    if meter.dose:
        library = MotionLibrary(clip)
        looking = lambda count: lambda: library.poses(torch.rand(count) * PERIOD)  # noqa: E731
        watched = amount_taking(meter, looking, 4, 44, meter.added_s / HORIZON)
    library = MotionLibrary(clip) if meter.sick else TensorLibrary(clip)
    while meter.going_on():
        runner.iterate(library, watched, meter.injecting)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
