"""Healthy control: a finger is bent by angles that a wide net foresees; its few joints are turned one by one.

Tempting: a loop of tiny kernels, forward and backward; but a short one, and the host has given all orders
long before the GPU is through with the net. A perfect diagnosis: healthy, nothing to mend. The dose is
taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

MUSCLES, JOINTS = 48, 6


class Finger:
    """A chain of joints in a plane; where its tip is."""

    def __init__(self, device):
        self.lengths = torch.linspace(0.5, 0.2, JOINTS, device=device).unbind()

    def tip(self, angles):
        turned, tip = 0.0, 0.0
        for angle, length in zip(angles.unbind(1), self.lengths, strict=True):
            turned = turned + angle
            tip = tip + length * torch.stack([turned.cos(), turned.sin()], 1)
        return tip


class MuscleNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(MUSCLES, width), nn.Linear(width, JOINTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, muscles):
        h = self.enter(muscles)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 256)
    net, finger = MuscleNet(*meter.pick((4096, 6), (384, 5))).to(meter.device), Finger(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    muscles = torch.randn(rows, MUSCLES, device=meter.device)
    touched = torch.randn(rows, 2, device=meter.device)

    def tick():
        with meter.autocast():
            angles = net(muscles)
        loss = F.mse_loss(finger.tip(angles), touched)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
