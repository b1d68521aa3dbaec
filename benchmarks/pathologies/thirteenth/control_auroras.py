"""Healthy control: flow matching over small fields of northern lights, with a slow copy of the weights.

Plain: all of it is on the device, and nothing is read. A perfect diagnosis: healthy, nothing to mend. The
dose is taken and does nothing; there is no planted line.
"""

import copy

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FIELD, SLOW = 144, 0.999


class Flow(nn.Module):
    """Layers that are told what time it is."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.time = nn.Linear(FIELD, width), nn.Linear(16, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave, self.waves = nn.Linear(width, FIELD), nn.Parameter(torch.randn(8))

    def forward(self, field, time):
        angle = time * self.waves
        told = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        h = self.enter(field) + told
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class SlowCopy:
    def __init__(self, net):
        self.net = copy.deepcopy(net).requires_grad_(False)
        self.pairs = list(self.net.parameters()), list(net.parameters())

    @torch.no_grad()
    def follow(self):
        torch._foreach_lerp_(*self.pairs, 1 - SLOW)


def steps(meter):
    rows = meter.pick(8192, 96)
    flow = Flow(*meter.pick((4096, 5), (256, 4))).to(meter.device)
    slow, fields = SlowCopy(flow), torch.randn(rows, FIELD, device=meter.device)
    optimizer = torch.optim.AdamW(flow.parameters(), 1e-5, fused=meter.gpu)
    while True:
        noise, time = torch.randn_like(fields), torch.rand(rows, 1, device=meter.device)
        with meter.autocast():
            guess = flow((1 - time) * noise + time * fields, time)
        loss = F.mse_loss(guess, fields - noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        slow.follow()
        yield loss.detach()


def main():
    meter = Meter(__doc__)
    training = steps(meter)
    meter.calibrate(lambda: next(training))
    while meter.going_on():
        next(training)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
