"""Healthy control: clouds from a satellite, foreseen; the loss of every step is read, but a few steps late.

Tempting: a number from the GPU in each step, and a line of text made of it; but it is copied without waiting,
and looked at when it has long arrived. A perfect diagnosis: healthy, nothing to mend. The dose is taken and
does nothing; there is no planted line.
"""

from collections import deque

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class LateLosses:
    """Each loss on its way to the host; only those that have arrived are read."""

    def __init__(self, gpu):
        self.gpu, self.coming, self.lines = gpu, deque(), deque(maxlen=100)

    def send(self, loss):
        host = torch.empty((), pin_memory=self.gpu)
        host.copy_(loss.detach(), non_blocking=True)
        arrived = torch.cuda.Event() if self.gpu else None
        if arrived:
            arrived.record()
        self.coming.append((host, arrived))
        self.read()

    def read(self):
        while self.coming:
            host, arrived = self.coming[0]
            if arrived is not None and not arrived.query():
                return
            self.coming.popleft()
            self.lines.append(f"loss {float(host):.4f}")


class CloudNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(4, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.ahead = nn.ConvTranspose2d(width, 1, 4, stride=4)

    def forward(self, past):
        h = self.stem(past)
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.ahead(h)[:, 0].float()


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((32, 256), (4, 64))
    channels = {"memory_format": torch.channels_last}
    net = CloudNet(*meter.pick((256, 7), (48, 5))).to(meter.device, **channels)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    past = torch.rand(batch, 4, side, side, device=meter.device).contiguous(**channels)
    truth = torch.rand(batch, side, side, device=meter.device)
    losses = LateLosses(meter.gpu)

    def tick():
        with meter.autocast():
            ahead = net(past)
        loss = F.mse_loss(ahead, truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.send(loss)

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
