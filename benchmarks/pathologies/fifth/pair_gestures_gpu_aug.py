"""Two faults: clips are copied from ordinary memory, and then each is bent by itself on the GPU, in a loop.

Each takes three quarters of a dose. A perfect diagnosis names both: large blocking copies from pageable
memory (first marked line) and hundreds of small kernels (second). Fix: pinned clips copied ahead on
another stream, and all of them bent at once.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, GESTURES, JOINTS, FRAMES = 0.75, 27, 32, 64


class Pageable:
    def __init__(self, clips, device):
        self.clips, self.device, self.turn = clips, device, 0

    def next(self):
        self.turn += 1
        return self.clips[self.turn % len(self.clips)].to(self.device)  # planted


class Ahead:
    def __init__(self, clips, device):
        self.clips, self.device, self.turn = [c.pin_memory() for c in clips], device, 0
        self.side, self.coming = torch.cuda.Stream(), None
        self._send()

    def _send(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.coming = self.clips[self.turn % len(self.clips)].to(self.device, non_blocking=True)
        self.turn += 1

    def next(self):
        torch.cuda.current_stream().wait_stream(self.side)
        clips = self.coming
        clips.record_stream(torch.cuda.current_stream())
        self._send()
        return clips


class Bend:
    """A gesture is made larger or smaller, moved, and shaken."""

    def __init__(self, count, alone):
        self.count, self.alone = count, alone

    def one(self, clip):
        size = 0.9 + 0.2 * torch.rand((), device=clip.device)
        moved = clip * size + 0.1 * torch.randn(1, JOINTS, device=clip.device)  # planted
        return moved + 0.01 * torch.randn_like(moved)

    def all(self, clips):
        size = 0.9 + 0.2 * torch.rand(len(clips), 1, 1, device=clips.device)
        moved = clips * size + 0.1 * torch.randn(len(clips), 1, JOINTS, device=clips.device)
        return moved + 0.01 * torch.randn_like(moved)

    @torch.no_grad()
    def __call__(self, clips):
        bent = clips[: self.count]
        bent = torch.stack([self.one(clip) for clip in bent]) if self.alone else self.all(bent)
        return torch.cat([bent, clips[self.count :]])


class Gestures(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(JOINTS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.gesture = nn.Linear(width, GESTURES)

    def forward(self, clips):
        h = self.enter(clips)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.gesture(h.mean(1))


def clips_of(count):
    return [torch.full((count, FRAMES, JOINTS), 0.1 * n) for n in range(2)]


def clips_taking(meter, wanted_s):
    probe = clips_of(2048)[0]
    return round(2048 * wanted_s / meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5))


def main():
    meter = Meter(__doc__)
    rows = meter.pick(128, 4)
    net = Gestures(*meter.pick((4096, 5), (64, 1))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    truth = torch.randint(GESTURES, (rows,), device=meter.device)

    def learn(clips):
        with meter.autocast():
            loss = F.cross_entropy(net(clips[:rows]), truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    bend = Bend(4, alone=False)
    here = clips_of(rows)[0].to(meter.device)
    meter.calibrate(lambda: learn(bend(here)))
    part_s, count = PART * meter.added_s, rows
    if meter.dose:
        count = max(rows, clips_taking(meter, part_s))
        few = here[:4]
        one_s = meter.timed_s(lambda: [bend.one(clip) for clip in few], calls=10) / 4
        bend.count = max(4, min(count, round(part_s / one_s)))
    bend.alone = meter.sick
    source = (Ahead if meter.gpu and not meter.sick else Pageable)(clips_of(count), meter.device)
    while meter.going_on():
        learn(bend(source.next()))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
