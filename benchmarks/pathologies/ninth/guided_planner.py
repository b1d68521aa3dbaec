"""A diffusion planner for a mobile robot; the value function that weighs its plans stayed on the CPU.

`load_guide` builds it anew from a file, and the training moves only the planner; how many plans are weighed
is the dose. A perfect diagnosis: a part of the model computes on the CPU, and the GPU waits for it (either
of the lines marked below). Fix: the guide moves to the planner's device.
"""

import io

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WAYPOINTS, PLACE = 16, 3


class ValueGuide(nn.Module):
    """How good is a plan?"""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(WAYPOINTS * PLACE, 320), nn.SiLU(), nn.Linear(320, 320), nn.SiLU(), nn.Linear(320, 1)
        )

    def forward(self, plans):
        return self.layers(plans)[:, 0]  # planted


def saved_guide():
    file = io.BytesIO()
    torch.save(ValueGuide().state_dict(), file)
    file.seek(0)
    return file


def load_guide(file):
    guide = ValueGuide().requires_grad_(False).eval()
    guide.load_state_dict(torch.load(file, map_location="cpu"))
    return guide


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        size = WAYPOINTS * PLACE
        self.enter, self.leave = nn.Linear(size + 1, width), nn.Linear(width, size)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, noisy, level):
        h = self.enter(torch.cat([noisy, level], 1))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Planner:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = Denoiser(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.plans = torch.randn(self.rows, WAYPOINTS * PLACE, device=meter.device)
        self.weighed = 64

    @torch.no_grad()
    def weigh(self, guide, plans):
        """A few candidates of each plan, if more than there are."""
        plans = plans.repeat(-(-self.weighed // self.rows), 1)[: self.weighed]
        values = guide(plans.to(next(guide.parameters()).device))  # planted
        return values.to(self.meter.device).mean().sigmoid()

    def step(self, guide):
        level = torch.rand(self.rows, 1, device=self.meter.device)
        noise = torch.randn_like(self.plans)
        noisy = (1 - level) * self.plans + level * noise
        with self.meter.autocast():
            found = self.net(noisy, level)
        weight = self.weigh(guide, (noisy - level * found).detach())
        loss = (0.5 + weight) * F.mse_loss(found, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def plan_s(meter, guide):
    """One plan more, on the CPU."""
    times = []
    with torch.no_grad():
        for count in (256, 4352):
            plans = torch.randn(count, WAYPOINTS * PLACE)
            times.append(meter.timed_s(lambda p=plans: guide(p), calls=8))
    return max(1e-8, (times[1] - times[0]) / 4096)


def main():
    meter = Meter(__doc__)
    planner, forgotten = Planner(meter), load_guide(saved_guide())
    moved = load_guide(saved_guide()).to(meter.device)
    meter.calibrate(lambda: planner.step(moved))
    if meter.dose:
        planner.weighed = max(64, round(meter.added_s / plan_s(meter, forgotten)))
    guide = forgotten if meter.sick else moved
    while meter.going_on():
        planner.step(guide)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
