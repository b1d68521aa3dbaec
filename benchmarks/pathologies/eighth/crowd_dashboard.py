"""Counting people in a crowd; a thread beside the training keeps a dashboard of all the run's numbers fresh.

How rarely the thread rests is the dose. A perfect diagnosis: another Python thread holds the interpreter, at
the line marked below, and the training thread cannot give orders. Fix: a look now and then.
"""

import threading
from collections import deque

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

RARELY_S = 1.0
RESTS_S = tuple(0.05 * 0.75**n for n in range(26))


class Dashboard(threading.Thread):
    """Quantiles of everything, over and over."""

    def __init__(self, rest_s):
        super().__init__(daemon=True)
        self.numbers, self.rest_s, self.over = deque(maxlen=2000), rest_s, threading.Event()
        self.numbers.extend((n * 7919 % 1000) / 1000 for n in range(2000))
        self.shown = {}

    def quantile(self, share):
        wanted = share * len(self.numbers)
        return next(n for n in range(101) if self.at_most(n / 100) >= wanted)

    def at_most(self, limit):
        count = 0
        for number in tuple(self.numbers):
            if number <= limit:  # planted
                count += 1
        return count

    def run(self):
        while not self.over.is_set():
            self.shown["median"] = self.quantile(0.3)
            self.over.wait(self.rest_s)

    def close(self):
        self.over.set()
        self.join()


class CrowdNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.heads = nn.Conv2d(width, 1, 1)

    def forward(self, pictures):
        h = self.stem(pictures)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return F.softplus(self.heads(h).float())


def rest_that_costs(meter, dashboard, tick, wanted_s):
    """The longest rest with which a tick takes as long as wanted."""
    for rest_s in RESTS_S:
        dashboard.rest_s = rest_s
        if meter.timed_s(tick, calls=8) >= wanted_s:
            break
    return dashboard.rest_s


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((32, 256), (4, 64))
    channels = {"memory_format": torch.channels_last}
    net = CrowdNet(*meter.pick((256, 7), (48, 5))).to(meter.device, **channels)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    pictures = torch.rand(batch, 3, side, side, device=meter.device).contiguous(**channels)
    density = torch.rand(batch, 1, side // 4, side // 4, device=meter.device)

    def tick():
        with meter.autocast():
            guess = net(pictures)
        loss = F.mse_loss(guess, density)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    healthy_s = meter.calibrate(tick)
    dashboard = Dashboard(RESTS_S[0] if meter.sick else RARELY_S)
    dashboard.start()
    if meter.sick:
        dashboard.rest_s = rest_that_costs(meter, dashboard, tick, (1 + meter.share) * healthy_s)
    while meter.going_on():
        tick()
        meter.ticked()
        dashboard.numbers.append(0.001 * (meter.ticks % 1000))
    meter.report(excess=True)
    dashboard.close()


if __name__ == "__main__":
    main()
