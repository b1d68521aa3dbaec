"""Cold diffusion: pictures fade to grey and a net undoes it; the fading is simulated step by step.

Each step goes over all pictures several times; how many steps there are is the dose. A perfect diagnosis: a
chain of elementwise kernels, bound by the GPU's memory (marked below). Fix: the product of all steps, worked
out once, and one pass.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PATCH, GREY = 32, 0.5


def fade_by_steps(pictures, keep):
    for share in keep:
        pictures = pictures * share + GREY * (1 - share)  # planted
    return pictures


def fade_at_once(pictures, keep):
    share = 1.0
    for one in keep:
        share *= one
    return torch.add(GREY * (1 - share), pictures, alpha=share) if share < 1 else pictures


class Restorer(nn.Module):
    """Patches of a picture to what they were, as rows."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(3 * PATCH**2, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.mean = nn.Linear(width, 3)

    def forward(self, pictures):
        h = self.enter(F.pixel_unshuffle(pictures, PATCH).flatten(2).transpose(1, 2))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.mean(h).float()


class ColdDiffusion:
    def __init__(self, meter):
        self.meter, (batch, side) = meter, meter.pick((32, 512), (4, 96))
        self.net = Restorer(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.pictures = torch.rand(batch, 3, side, side, device=meter.device)
        self.truth = F.avg_pool2d(self.pictures, PATCH).flatten(2).transpose(1, 2)
        self.steps = 4

    def schedule(self):
        return [1 - 0.5 * (n + 1) / self.steps**2 for n in range(self.steps)]

    def step(self, fade):
        with torch.no_grad():
            faded = fade(self.pictures, self.schedule())
        with self.meter.autocast():
            guess = self.net(faded)
        loss = F.mse_loss(guess, self.truth)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    cold = ColdDiffusion(meter)
    meter.calibrate(lambda: cold.step(fade_at_once))
    if meter.dose:
        keep = [0.99] * 16
        each_s = meter.timed_s(lambda: fade_by_steps(cold.pictures, keep), calls=5) / 16
        cold.steps = max(2, round(meter.added_s / each_s))
    fade = fade_by_steps if meter.sick else fade_at_once
    while meter.going_on():
        cold.step(fade)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
