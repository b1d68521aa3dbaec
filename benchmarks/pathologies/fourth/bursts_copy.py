"""Denoising of photographic bursts that lie in ordinary memory and are copied in every step.

How many frames a burst has is the dose. A perfect diagnosis: large blocking copies from pageable memory
(marked below), for which the GPU waits. Fix: pinned memory, and the next burst copied beside the work.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PATCH = 256


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(PATCH, width), nn.Linear(width, PATCH)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, patches):
        h = self.enter(patches)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return patches - self.leave(h)


class Prefetched:
    """The next burst is on its way, on a stream of its own, while this one is learned."""

    def __init__(self, bursts, device):
        self.bursts, self.device = [burst.pin_memory() for burst in bursts], device
        self.side, self.number = torch.cuda.Stream(), 0
        self._send()

    def _send(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.coming = self.bursts[self.number % len(self.bursts)].to(self.device, non_blocking=True)
        self.number += 1

    def next(self):
        torch.cuda.current_stream().wait_stream(self.side)
        burst = self.coming
        burst.record_stream(torch.cuda.current_stream())
        self._send()
        return burst


class Copied:
    def __init__(self, bursts, device):
        self.bursts, self.device, self.number = bursts, device, 0

    def next(self):
        self.number += 1
        return self.bursts[self.number % len(self.bursts)].to(self.device)  # planted


def make_bursts(frames, side):
    return [torch.empty(frames, side, side).fill_(0.1 * n) for n in range(2)]


def frames_taking(meter, wanted_s, side):
    """A blocking copy of one frame, from a burst large enough to tell."""
    probe = make_bursts(16, side)[0]
    return max(1, round(wanted_s * 16 / meter.timed_s(lambda: probe.to(meter.device, copy=True))))


def main():
    meter = Meter(__doc__)
    side, rows = meter.pick((1024, 8192), (64, 16))
    net = Denoiser(*meter.pick((4096, 5), (64, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=meter.gpu)

    def denoise(burst):
        merged = burst.mean(0).view(-1, PATCH)
        patches = merged.repeat(-(-rows // len(merged)), 1)[:rows]
        with meter.autocast():
            clean = net(patches + 0.1 * torch.randn_like(patches))
        loss = F.mse_loss(clean.float(), patches)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    still = torch.zeros(1, side, side, device=meter.device)
    meter.calibrate(lambda: denoise(still))
    frames = frames_taking(meter, meter.added_s, side) if meter.dose else 1
    kind = Copied if meter.sick or not meter.gpu else Prefetched
    source = kind(make_bursts(frames, side), meter.device)
    while meter.going_on():
        denoise(source.next())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
