"""Where are a frog's joints? Each joint is a bell in a large picture of what the net should say.

The bells are drawn joint by joint over whole pictures of all frogs. How many joints there are is the dose. A
perfect diagnosis: elementwise passes over huge tensors, bound by the GPU's memory (any line marked below).
Fix: a bell is a product of one along x and one along y, and all of them are one batched matrix product.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class Bells:
    def __init__(self, frogs, side, device):
        self.line, self.wide = torch.arange(side, device=device) / side, 2e-3
        self.frogs, self.device = frogs, device
        self.of_joints(2)

    def of_joints(self, count):
        self.joints = torch.rand(self.frogs, count, 2, device=self.device)

    def one_by_one(self):
        side = len(self.line)
        drawn = torch.zeros(self.frogs, side, side, device=self.device)
        for x, y in self.joints.permute(1, 2, 0)[..., None, None]:
            far = (self.line[None, None] - x).square() + (self.line[None, :, None] - y).square()  # planted
            drawn = drawn + torch.exp(-far / self.wide)  # planted
        return drawn

    def at_once(self):
        bells = torch.exp(-(self.line - self.joints[..., None]).square() / self.wide)
        return bells[:, :, 1].transpose(1, 2) @ bells[:, :, 0]


class FrogNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, width, 4, stride=4), nn.Conv2d(width, 1, 1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, photos):
        h = self.enter(photos)
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.leave(h).float()[:, 0]


class Pond:
    def __init__(self, meter):
        self.meter, (frogs, side, small) = meter, meter.pick((192, 512, 64), (2, 64, 32))
        channels = {"memory_format": torch.channels_last}
        self.net = FrogNet(*meter.pick((384, 10), (32, 3))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        photos = torch.rand(frogs, 3, small, small, device=meter.device)
        self.photos, self.bells = photos.contiguous(**channels), Bells(frogs, side, meter.device)
        self.shrink = side // (small // 4)

    def step(self, draw):
        with torch.no_grad():
            wanted = F.avg_pool2d(draw()[:, None], self.shrink)[:, 0]
        with self.meter.autocast():
            guess = self.net(self.photos)
        loss = F.mse_loss(guess, wanted)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def joint_s(meter, bells):
    bells.of_joints(8)
    return meter.timed_s(bells.one_by_one, calls=5) / 8


def main():
    meter = Meter(__doc__)
    pond = Pond(meter)
    bells = pond.bells
    meter.calibrate(lambda: pond.step(bells.at_once))
    if meter.dose:
        bells.of_joints(max(2, round(meter.added_s / joint_s(meter, bells))))
    draw = bells.one_by_one if meter.sick else bells.at_once
    while meter.going_on():
        pond.step(draw)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
