"""Healthy control: a surgeon's hand is imitated; the loss is read and shown after every step.

Tempting: `.item()` in each step, and the host waits for the GPU. But nothing is to be done afterwards,
kernels are long, and the next ones are there within a blink. A perfect diagnosis: healthy, nothing to mend.
The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, HAND = 72, 20


class Imitator(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.hand = nn.Linear(SEEN, width), nn.Linear(width, HAND)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.hand(h).float()


class Shown:
    """A running mean of the loss, for the end of a line of progress."""

    def __init__(self):
        self.mean, self.line = None, ""

    def show(self, step, loss):
        self.mean = loss if self.mean is None else 0.98 * self.mean + 0.02 * loss
        self.line = f"step {step} loss {self.mean:.4f}"


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 64)
    net = Imitator(*meter.pick((4096, 6), (256, 5))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    seen = torch.randn(rows, SEEN, device=meter.device)
    hand = torch.randn(rows, HAND, device=meter.device)
    shown = Shown()

    def tick():
        with meter.autocast():
            guess = net(seen)
        loss = F.smooth_l1_loss(guess, hand)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        shown.show(meter.ticks, loss.item())

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
