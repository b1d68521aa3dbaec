"""A denoiser of spectra with several moving averages of its weights, each weight of each average by itself.

How many averages there are is the dose. A perfect diagnosis: hundreds of tiny kernels, for which the host
cannot give orders fast enough (marked below). Fix: all weights of an average by one `_foreach_lerp_`.
"""

import copy

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BANDS = 96


class Mixed(nn.Module):
    """A wide layer, and many thin ones that tune it."""

    def __init__(self, width, tuners):
        super().__init__()
        self.wide = nn.Linear(width, width)
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(tuners))

    def forward(self, h, level):
        scale = torch.stack(list(self.scales)).mean(0)
        return h + F.silu(self.wide(h) * scale + level)


class Denoiser(nn.Module):
    def __init__(self, width, depth, tuners):
        super().__init__()
        self.enter, self.leave = nn.Linear(BANDS, width), nn.Linear(width, BANDS)
        self.level = nn.Linear(1, width)
        self.layers = nn.ModuleList(Mixed(width, tuners) for _ in range(depth))

    def forward(self, noisy, level):
        h, level = self.enter(noisy), self.level(level)
        for layer in self.layers:
            h = layer(h, level)
        return self.leave(h).float()


class Profile:
    """An average of the small weights, with a half-life of its own."""

    def __init__(self, net, decay):
        self.decay = decay
        self.live = [weight for weight in net.parameters() if weight.dim() == 1]
        self.kept = [copy.deepcopy(weight.detach()) for weight in self.live]

    @torch.no_grad()
    def one_by_one(self):
        for kept, live in zip(self.kept, self.live, strict=True):
            kept.mul_(self.decay).add_(live, alpha=1 - self.decay)  # planted

    @torch.no_grad()
    def at_once(self):
        torch._foreach_lerp_(self.kept, [w.detach() for w in self.live], 1 - self.decay)


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 32)
    net = Denoiser(*meter.pick((4096, 5, 24), (64, 2, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    spectra = torch.rand(rows, BANDS, device=meter.device)

    def denoise():
        level = torch.rand(rows, 1, device=meter.device)
        noise = torch.randn_like(spectra)
        with meter.autocast():
            guess = net(spectra + level * noise, level)
        loss = F.mse_loss(guess, noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    profiles = [Profile(net, 0.99)]
    meter.calibrate(lambda: (denoise(), profiles[0].at_once()))
    if meter.dose:
        one_s = meter.timed_s(profiles[0].one_by_one, calls=10)
        profiles = [Profile(net, 1 - 0.1 / (n + 1)) for n in range(max(1, round(meter.host_s / one_s)))]
    update = Profile.one_by_one if meter.sick else Profile.at_once
    while meter.going_on():
        denoise()
        for profile in profiles:
            update(profile)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
