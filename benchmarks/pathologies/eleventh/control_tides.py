"""Healthy control: tides at many harbours, forecast from a week of them by a mixer.

Nothing tempts. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

HOURS = 168


class Mixer(nn.Module):
    """Over features, after hours were folded into them."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(HOURS, width), nn.Linear(width, 24)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, tides):
        h = self.enter(tides)
        for norm, layer in zip(self.norms, self.body, strict=True):
            h = h + F.gelu(layer(norm(h)))
        return self.leave(h).float()


class Harbours:
    """Sums of two waves, in phases of their own."""

    def __init__(self, count, device):
        hours, phase = torch.arange(HOURS + 24, device=device), torch.rand(count, 2, 1, device=device)
        waves = torch.sin(6.283 * (hours / torch.tensor([[12.4], [24.8]], device=device) + phase))
        self.past, self.coming = waves.sum(1).split((HOURS, 24), 1)


def main():
    meter = Meter(__doc__)
    harbours = Harbours(meter.pick(8192, 128), meter.device)
    mixer = Mixer(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(mixer.parameters(), 1e-5, fused=meter.gpu)

    def tick():
        noisy = harbours.past + 0.05 * torch.randn_like(harbours.past)
        with meter.autocast():
            guess = mixer(noisy)
        loss = F.huber_loss(guess, harbours.coming)
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
