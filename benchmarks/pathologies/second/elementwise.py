"""Colour jitter on whole high-resolution frames, one small operation after the other, then a random crop.

Each operation reads and writes all pixels of the batch. A perfect diagnosis: the GPU is busy, but bound by
its memory (DRAM near its limit, tensor cores near zero) in a chain of elementwise operations, in `jitter`,
whose first is marked below. Nothing on the host is to blame. Fix: crop first, then jitter the crop (or fuse
it).
"""

import torch
from meter import Meter
from torch import nn


def jitter(pixels, rounds):
    for _ in range(rounds):
        light, strength, colour = (torch.rand(len(pixels), 1, 1, 1, device=pixels.device) for _ in range(3))
        pixels = pixels + 0.1 * (light - 0.5)  # planted
        pixels = pixels * (0.9 + 0.2 * strength)
        grey = pixels.mean(1, keepdim=True)
        pixels = grey + (pixels - grey) * (0.9 + 0.2 * colour)
        pixels = pixels.clamp(1e-3, 1)
        pixels = pixels**1.02
    return pixels


def crop(frames, side):
    top, left = (int(torch.randint(size - side + 1, ())) for size in frames.shape[2:])
    return frames[:, :, top : top + side, left : left + side]


def network(width, depth):
    layers = [nn.Conv2d(3, width, 4, stride=4)]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 50))


def main():
    meter = Meter(__doc__)
    batch, height, broad, side = meter.pick((64, 720, 1280, 224), (8, 96, 128, 32))
    frames = torch.randint(0, 256, (batch, 3, height, broad), dtype=torch.uint8, device=meter.device)
    labels = torch.randint(50, (batch,), device=meter.device)
    net = network(*meter.pick((384, 8), (16, 3))).to(meter.device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def learn(pixels):
        with meter.autocast():
            loss = nn.functional.cross_entropy(net(pixels), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()

    healthy_s = meter.calibrate(lambda: learn(crop(frames, side).float().div(255)))
    one_s = meter.timed_s(lambda: jitter(frames.float().div(255), 1))
    two_s = meter.timed_s(lambda: jitter(frames.float().div(255), 2))
    rounds = max(1, round((meter.share * healthy_s - one_s) / max(two_s - one_s, 0.1 * one_s)) + 1)
    while meter.going_on():
        if meter.sick:
            pixels = crop(jitter(frames.float().div(255), rounds), side)
        else:
            pixels = jitter(crop(frames, side).float().div(255), 1)
        learn(pixels)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
