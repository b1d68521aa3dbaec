"""A soft robot with many arms imitates a diver; where its segments are is worked out on the GPU, one by one.

How many arms it has is the dose. A perfect diagnosis: launch-bound, as each segment marked below is a few
tiny kernels, forward and backward, and the GPU waits for the next one. Fix: all arms at once, segment after
segment from the body outwards.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEGMENTS, POSES, SEEN = 4, 32, 60


def rotations(angles):
    """From three angles to matrices, for any number of them."""
    (sx, sy, sz), (cx, cy, cz) = angles.sin().unbind(-1), angles.cos().unbind(-1)
    rows = [
        torch.stack([cy * cz, -cy * sz, sy], -1),
        torch.stack([cx * sz + sx * sy * cz, cx * cz - sx * sy * sz, -sx * cy], -1),
        torch.stack([sx * sz - cx * sy * cz, sx * cz + cx * sy * sz, cx * cy], -1),
    ]
    return torch.stack(rows, -2)


class Body:
    def __init__(self, arms, device):
        self.arms = arms
        self.bone = torch.tensor([0.0, 0.0, 0.1], device=device)
        self.trunk = torch.eye(3, device=device).expand(POSES, 3, 3)

    def segment_by_segment(self, angles):
        """Angles are (poses, arms, segments, 3)."""
        turns, places = rotations(angles), []
        for arm in range(self.arms):
            turn, place = self.trunk, torch.zeros_like(angles[:, 0, 0])
            for segment in range(SEGMENTS):
                turn = torch.bmm(turn, turns[:, arm, segment])  # planted
                place = place + turn @ self.bone
                places.append(place)
        return torch.stack(places, 1)

    def arms_together(self, angles):
        turns = rotations(angles)
        turn, place, places = self.trunk[:, None], torch.zeros_like(angles[:, :, 0]), []
        for segment in range(SEGMENTS):
            turn = turn @ turns[:, :, segment]
            place = place + turn @ self.bone
            places.append(place)
        return torch.stack(places, 2).flatten(1, 2)


class Imitator(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, 3)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.leave(h).float().tanh()


class MotionImitation:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.net = Imitator(*meter.pick((4096, 5), (192, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(self.rows, SEEN, device=meter.device)
        self.grow(2)

    def grow(self, arms):
        self.body = Body(arms, self.meter.device)
        self.diver = torch.randn(POSES, arms * SEGMENTS, 3, device=self.meter.device)

    def angles_of(self, out):
        shape = (POSES, self.body.arms, SEGMENTS, 3)
        count = POSES * self.body.arms * SEGMENTS
        return out.repeat(-(-count // self.rows), 1)[:count].view(shape)

    def step(self, together):
        with self.meter.autocast():
            out = self.net(self.seen)
        kinematics = self.body.arms_together if together else self.body.segment_by_segment
        loss = F.mse_loss(kinematics(self.angles_of(out)), self.diver) + 0.01 * out.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def host_s_of_an_arm(run):
    body = Body(10, run.meter.device)
    angles = torch.randn(POSES, 10, SEGMENTS, 3, device=run.meter.device, requires_grad=True)
    return run.meter.timed_s(lambda: body.segment_by_segment(angles).sum().backward(), calls=6) / 10


def main():
    meter = Meter(__doc__)
    run = MotionImitation(meter)
    meter.calibrate(lambda: run.step(together=True))
    if meter.dose:
        run.grow(max(2, round(meter.host_s / host_s_of_an_arm(run))))
    while meter.going_on():
        run.step(together=not meter.sick)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
