"""Sea ice in radar pictures, by a small U-Net; a guard against fragmented memory empties the cache when full.

It was written for a card with little memory, and its limit is always exceeded here. How rarely it looks is
the dose. A perfect diagnosis: the allocator gives memory back to the driver and asks for it again all the
time (marked below). Fix: a limit that fits the card. Needs a GPU.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class FragmentationGuard:
    def __init__(self, limit_bytes, gpu):
        self.limit_bytes, self.gpu, self.every, self.emptied = limit_bytes, gpu, 1, 0

    def look(self):
        if self.gpu and torch.cuda.memory_reserved() > self.limit_bytes:
            torch.cuda.empty_cache()  # planted
            self.emptied += 1

    def after(self, step):
        if step % self.every == 0:
            self.look()


def convs(width, depth):
    return nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))


class IceNet(nn.Module):
    """Two sizes of maps, the smaller one twice as wide."""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(2, width, 4, stride=4)
        self.fine, self.coarse, self.last = convs(width, depth), convs(2 * width, depth), convs(width, 1)
        self.down = nn.Conv2d(width, 2 * width, 2, stride=2)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.ice = nn.ConvTranspose2d(width, 1, 4, stride=4)

    def forward(self, radar):
        h = self.stem(radar)
        for conv in self.fine:
            h = h + F.relu(conv(h))
        low = self.down(h)
        for conv in self.coarse:
            low = low + F.relu(conv(low))
        h = h + self.up(low)
        for conv in self.last:
            h = h + F.relu(conv(h))
        return self.ice(h)[:, 0].float()


class Training:
    def __init__(self, meter):
        self.meter, (batch, side) = meter, meter.pick((32, 256), (2, 32))
        channels = {"memory_format": torch.channels_last}
        self.net = IceNet(*meter.pick((256, 3), (8, 1))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.radar = torch.rand(batch, 2, side, side, device=meter.device).contiguous(**channels)
        self.ice = torch.rand(batch, side, side, device=meter.device)

    def step(self):
        with self.meter.autocast():
            scores = self.net(self.radar)
        loss = F.binary_cross_entropy_with_logits(scores, self.ice)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    roomy, small = 100 << 30, 1 << 20
    guard = FragmentationGuard(roomy, meter.gpu)
    healthy_s = meter.calibrate(training.step)
    if meter.sick and meter.gpu:
        guard.limit_bytes = small
        fresh_s = meter.timed_s(lambda: (training.step(), guard.look()), calls=6) - healthy_s
        guard.every = max(1, round(fresh_s / meter.added_s))
    while meter.going_on():
        training.step()
        meter.ticked()
        guard.after(meter.ticks)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
