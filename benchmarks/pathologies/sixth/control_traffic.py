"""Healthy control: traffic on a net of roads, all of it on the device; a plain graph net in mixed precision.

Two parameter groups, clipping, a schedule, and the loss read every hundred steps. A perfect diagnosis:
healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

HOURS, AHEAD = 12, 3


class RoadLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own, self.near, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, h, roads):
        return h + F.gelu(self.own(h) + self.near(roads @ self.norm(h).to(roads.dtype)))


class Traffic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(HOURS, width), nn.Linear(width, AHEAD)
        self.layers = nn.ModuleList(RoadLayer(width) for _ in range(depth))

    def forward(self, flow, roads):
        h = self.enter(flow)
        for layer in self.layers:
            h = layer(h, roads)
        return self.leave(h).float()


def day(crossings, hours, device):
    """Windows of a day's traffic, without end."""
    flow = torch.rand(crossings, hours, device=device)
    while True:
        for start in range(hours - HOURS - AHEAD):
            yield flow[:, start : start + HOURS], flow[:, start + HOURS : start + HOURS + AHEAD]


def main():
    meter = Meter(__doc__)
    crossings = meter.pick(4096, 128)
    net = Traffic(*meter.pick((3072, 6), (256, 3))).to(meter.device)
    groups = [
        {"params": [w for w in net.parameters() if w.dim() > 1], "weight_decay": 0.01},
        {"params": [w for w in net.parameters() if w.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, 1e-5, fused=meter.gpu)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5000)
    roads = torch.rand(crossings, crossings, device=meter.device).softmax(1)
    roads = roads.bfloat16() if meter.gpu else roads
    windows, losses, steps = day(crossings, 200, meter.device), [], 0

    def tick():
        nonlocal steps
        past, ahead = next(windows)
        with meter.autocast():
            guess = net(past, roads)
        loss = F.huber_loss(guess, ahead)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        steps += 1
        if steps % 100 == 0:
            losses.append(loss.item())

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
