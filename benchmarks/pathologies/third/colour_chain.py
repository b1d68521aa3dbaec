"""An image net behind a chain of colour changes on the GPU, each of which reads and writes the whole batch.

How long the chain is is the dose. A perfect diagnosis: the GPU is busy, but with elementwise kernels that
its memory bounds (marked below). Fix: the chain is a gain and an offset, made small and applied once.
"""

import torch
from stopwatch import Meter
from torch import nn


class ColourChain:
    """Brightness, contrast and gamma-free tint, `links` times, each with its own random strength."""

    def __init__(self, links, device):
        generator = torch.Generator().manual_seed(0)
        self.gains = (0.98 + 0.04 * torch.rand(links, 3, 1, 1, generator=generator)).to(device)
        self.offsets = (0.01 * torch.randn(links, 3, 1, 1, generator=generator)).to(device)

    def link_by_link(self, images):
        for gain, offset in zip(self.gains, self.offsets, strict=True):
            images = images * gain  # planted
            images = images + offset
        return images

    def folded(self, images):
        later = self.gains.flip(0).cumprod(0).flip(0) / self.gains
        gain, offset = self.gains.prod(0), (self.offsets * later).sum(0)
        return torch.addcmul(offset, images, gain)


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.mix = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        x = self.patches(x)
        for conv in self.mix:
            x = torch.relu(conv(x)) + x
        return self.head(x.mean((2, 3)))


def main():
    meter = Meter(__doc__)
    bs, side = meter.pick((256, 256), (4, 32))
    net = Net(*meter.pick((256, 4), (8, 1))).to(meter.device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.rand(bs, 3, side, side, device=meter.device)
    labels = torch.randint(100, (bs,), device=meter.device)

    def step(change):
        seen = change(images).to(memory_format=torch.channels_last)
        with meter.autocast():
            loss = nn.functional.cross_entropy(net(seen), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    meter.calibrate(lambda: step(ColourChain(0, meter.device).folded))
    probe = ColourChain(8, meter.device)
    link_s = meter.timed_s(lambda: probe.link_by_link(images)) / 8
    chain = ColourChain(round(meter.added_s / link_s), meter.device)
    change = chain.link_by_link if meter.sick else chain.folded
    while meter.going_on():
        step(change)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
