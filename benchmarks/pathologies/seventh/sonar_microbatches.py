"""Objects on the sea floor by sonar: gradients are accumulated over micro-batches, for a smaller card.

A sample takes 1.18, 1.67 and 2.5 times as long as with the largest batch at doses 1 to 3; compare
`samples_per_s`. A perfect diagnosis: the batch is too small for the GPU and most of its memory is free; its
size is used at the line marked below. Fix: the large batch, and fewer of them.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

OBJECTS = 9


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + F.relu(self.conv(self.norm(x)))


class SonarNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem, self.kind = nn.Conv2d(1, width, 4, stride=4), nn.Linear(width, OBJECTS)
        self.body = nn.Sequential(*(Block(width) for _ in range(depth)))

    def forward(self, pings):
        return self.kind(self.body(self.stem(pings)).mean((2, 3))).float()


class Accumulation:
    """An optimizer's step whenever enough samples have been seen."""

    def __init__(self, meter, largest, side):
        self.meter, self.largest, self.seen = meter, largest, 0
        self.net = SonarNet(*meter.pick((128, 12), (16, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.pings = torch.rand(2 * largest, 1, side, side, device=meter.device)
        self.kinds = torch.randint(OBJECTS, (2 * largest,), device=meter.device)

    def micro(self, count):
        start = int(torch.randint(self.largest, ()))
        rows = slice(start, start + count)
        with self.meter.autocast():
            scores = self.net(self.pings[rows])
        loss = F.cross_entropy(scores, self.kinds[rows]) * (count / self.largest)
        loss.backward()
        self.seen += count
        if self.seen >= self.largest:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.seen = 0


def too_small(training, wanted):
    """The first size, from the largest down, whose samples take `wanted` times as long; the waste of each."""
    meter, count = training.meter, training.largest
    each_s = meter.healthy_s / count
    while count > 1:
        count = max(1, count * 4 // 5)
        rounds = max(4, training.largest // count)
        micro_s = meter.timed_s(lambda c=count: training.micro(c), calls=min(rounds, 24))
        if micro_s >= wanted * count * each_s:
            break
    return count, max(0.0, micro_s - count * each_s)


def main():
    meter = Meter(__doc__)
    largest, side = meter.pick((512, 64), (16, 32))
    training, count, wasted_s = Accumulation(meter, largest, side), largest, 0.0
    meter.calibrate(lambda: training.micro(largest))
    if meter.sick:
        count, wasted_s = too_small(training, 1 + meter.share)
    while meter.going_on():
        training.micro(count)  # planted
        meter.injected_s += wasted_s
        meter.ticked(samples=count)
    meter.report()


if __name__ == "__main__":
    main()
