"""Healthy control: how far away is it? Depth from pictures, with a head that stays in fp32 on purpose.

Tempting: the head is taken out of autocast, and TF32 is off; but it is small, and the wide part is in bf16.
A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BINS = 64


class ExactHead(nn.Module):
    """Depth as the mean of bins, for which half precision would be too coarse."""

    def __init__(self, width):
        super().__init__()
        self.chance = nn.Linear(width, BINS)
        self.register_buffer("middles", torch.linspace(0.5, 80, BINS))

    def forward(self, h):
        with torch.autocast(h.device.type, enabled=False):
            return self.chance(h.float()).softmax(1) @ self.middles


class DepthNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.narrow, self.head = nn.Conv2d(width, width // 4, 1), ExactHead(width // 4)

    def forward(self, pictures):
        h = self.stem(pictures)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.head(self.narrow(h).permute(0, 2, 3, 1).flatten(0, 2))


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    batch, side = meter.pick((32, 128), (4, 32))
    channels = {"memory_format": torch.channels_last}
    net = DepthNet(*meter.pick((512, 8), (48, 5))).to(meter.device, **channels)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    pictures = torch.rand(batch, 3, side, side, device=meter.device).contiguous(**channels)
    metres = 80 * torch.rand(batch * (side // 4) ** 2, device=meter.device)

    def tick():
        with meter.autocast():
            guess = net(pictures)
        loss = F.l1_loss(guess, metres)
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
