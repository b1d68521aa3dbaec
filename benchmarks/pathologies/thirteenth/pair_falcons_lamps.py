"""Two faults: each of many falcons asks the policy for itself, and lamps are painted over whole pictures.

Each takes three quarters of a dose. A perfect diagnosis names both: one inference for each falcon, a few
small kernels and a wait (first marked line), and elementwise passes over huge tensors, bound by the GPU's
memory (any of the others). Fix: one inference for all, and light on a coarse grid, which is smooth enough
to be enlarged.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, WINGS, COARSE, PART = 10, 4, 16, 0.75


class Falcon:
    """A little world of its own: where it is, and what it sees of it."""

    def __init__(self, number):
        self.seen = torch.linspace(0, 1, SEEN) * (number % 7)

    def beat(self, wing):
        self.seen[wing] *= 0.9
        self.seen[-1] = 0.5 + 0.1 * wing


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(SEEN, width), nn.Tanh(), nn.Linear(width, WINGS))

    def forward(self, seen):
        return self.layers(seen)


@torch.no_grad()
def each_for_itself(falcons, policy, device):
    for falcon in falcons:
        falcon.beat(policy(falcon.seen.to(device)[None]).argmax().item())  # planted


@torch.no_grad()
def all_together(falcons, policy, device):
    seen = torch.stack([falcon.seen for falcon in falcons]).to(device)
    for falcon, wing in zip(falcons, policy(seen).argmax(1).tolist(), strict=True):
        falcon.beat(wing)


class Lamps:
    def __init__(self, pictures, side, device):
        self.side, self.pictures, self.device = side, pictures, device
        self.light(2)

    def light(self, count):
        self.places = torch.rand(count, self.pictures, 2, 1, 1, device=self.device)

    def fine(self):
        line = torch.arange(self.side, device=self.device) / self.side
        bright = torch.zeros(self.pictures, self.side, self.side, device=self.device)
        for x, y in self.places.transpose(1, 2):
            far = (line[None, None] - x).square() + (line[None, :, None] - y).square()  # planted
            bright = bright + 1 / (0.1 + far)  # planted
        return bright / len(self.places)

    def coarse(self):
        """All lamps in one pass over the few points of a grid."""
        x, y = self.places.unbind(2)
        line = (torch.arange(self.side // COARSE, device=self.device) + 0.5) * COARSE / self.side
        far = (line[None, None, None] - x).square() + (line[None, None, :, None] - y).square()
        bright = (1 / (0.1 + far)).mean(0)[:, None]
        return F.interpolate(bright, scale_factor=COARSE, mode="bilinear")[:, 0]


class World(nn.Module):
    """What the next picture shows."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(1, width, 16, stride=16), nn.Conv2d(width, 1, 1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, pictures):
        h = self.enter(pictures).contiguous(memory_format=torch.channels_last)
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.leave(h).float()


class Mews:
    def __init__(self, meter):
        self.meter, (pictures, side) = meter, meter.pick((256, 256), (3, 96))
        self.policy = Policy(meter.pick(256, 32)).to(meter.device)
        world = World(*meter.pick((384, 7), (48, 3)))
        self.world = world.to(meter.device, memory_format=torch.channels_last)
        weights = [*self.policy.parameters(), *self.world.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=meter.gpu)
        self.pictures, self.seen = torch.rand(2, pictures, side, side, device=meter.device)[
            :, :, None
        ].unbind()
        self.falcons, self.lamps = [Falcon(n) for n in range(4)], Lamps(pictures, side, meter.device)

    def learn(self, lit):
        with torch.no_grad():
            pictures, wanted = self.pictures * lit()[:, None], F.avg_pool2d(self.seen, 16)
        with self.meter.autocast():
            guess = self.world(pictures)
        wish = self.policy(self.seen[:, 0, 0, :SEEN]).logsumexp(1).mean()
        loss = F.mse_loss(guess, wanted) + 0.01 * wish
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def tick(self, ask, lit):
        ask(self.falcons, self.policy, self.meter.device)
        self.learn(lit)


def main():
    meter = Meter(__doc__)
    mews = Mews(meter)
    meter.calibrate(lambda: mews.tick(all_together, mews.lamps.coarse))
    part_s = PART * meter.added_s
    if meter.dose:
        asked = mews.falcons * 4
        each_s = meter.timed_s(lambda: each_for_itself(asked, mews.policy, meter.device), calls=20) / 16
        mews.falcons = [Falcon(n) for n in range(max(4, round(part_s / each_s)))]
        mews.lamps.light(12)
        lamp_s = meter.timed_s(mews.lamps.fine, calls=5) / 12
        mews.lamps.light(max(2, round(part_s / lamp_s)))
    ask, lit = (each_for_itself, mews.lamps.fine) if meter.sick else (all_together, mews.lamps.coarse)
    while meter.going_on():
        mews.tick(ask, lit)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
