"""Healthy control: pollen in the air, foreseen in mixed precision, with islands of full fp32.

Tempting: norms, a small readout and the loss leave autocast, and TF32 is off; but all that is narrow, and
the wide products are in bf16. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATIONS, KINDS = 64, 12


class ExactReadout(nn.Module):
    """Amounts differ by many orders of magnitude, so their logarithms are worked out exactly."""

    def __init__(self, size):
        super().__init__()
        self.norm, self.amount = nn.LayerNorm(size), nn.Linear(size, KINDS)

    def forward(self, h):
        with torch.autocast(h.device.type, enabled=False):
            return F.softplus(self.amount(self.norm(h.float()))).add(1e-6).log()


class PollenNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.narrow = nn.Linear(STATIONS, width), nn.Linear(width, STATIONS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.readout = ExactReadout(STATIONS)

    def forward(self, weather):
        h = self.enter(weather)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.readout(self.narrow(h))


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    rows = meter.pick(8192, 128)
    net = PollenNet(*meter.pick((4096, 6), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    weather = torch.randn(rows, STATIONS, device=meter.device)
    amounts = torch.rand(rows, KINDS, device=meter.device).log()

    def tick():
        with meter.autocast():
            guess = net(weather)
        loss = F.smooth_l1_loss(guess, amounts)
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
