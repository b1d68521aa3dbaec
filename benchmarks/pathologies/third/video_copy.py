"""A clip classifier that sends whole float clips from ordinary memory, and waits until each has arrived.

The clips hold more frames than the net looks at; how many more is the dose. A perfect diagnosis: a large
part of the time is a blocking copy from pageable memory to the GPU (marked below). Fix: pinned memory, and
a second stream that copies the next clips meanwhile.
"""

import torch
from stopwatch import Meter
from torch import nn

FRAMES = 16


class FrameNet(nn.Module):
    """2D convolutions over the frames, a 1D one over time."""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, stride=4, padding=3)
        self.body = nn.Sequential()
        for _ in range(depth):
            self.body.extend([nn.Conv2d(width, width, 3, padding=1), nn.SiLU(inplace=True)])
        self.over_time = nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Linear(width, 50)

    def forward(self, clips):
        count, frames = clips.shape[:2]
        x = self.body(self.stem(clips.flatten(0, 1).to(memory_format=torch.channels_last)))
        x = x.mean((2, 3)).view(count, frames, -1).transpose(1, 2)
        return self.head(self.over_time(x).amax(-1))


class CopyAhead:
    """Hand-written prefetch: the copy of the next clips runs on its own stream."""

    def __init__(self, pool, device):
        self.pool, self.device, self.turn = pool, device, 0
        self.stream = torch.cuda.Stream()
        self._fetch()

    def _fetch(self):
        with torch.cuda.stream(self.stream):
            self.ahead = self.pool[self.turn % len(self.pool)].to(self.device, non_blocking=True)
        self.turn += 1

    def __next__(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        clips = self.ahead
        clips.record_stream(torch.cuda.current_stream())
        self._fetch()
        return clips


class CopyNow:
    def __init__(self, pool, device):
        self.pool, self.device, self.turn = pool, device, 0

    def __next__(self):
        self.turn += 1
        clips = self.pool[self.turn % len(self.pool)]
        return clips.to(self.device)  # planted


def host_clips(bs, side, frames, pinned):
    return [torch.full((bs, frames, 3, side, side), 0.1 * i, pin_memory=pinned) for i in range(1, 5)]


def main():
    meter = Meter(__doc__)
    bs, side = meter.pick((8, 112), (2, 16))
    model = FrameNet(*meter.pick((256, 8), (8, 1))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    labels = torch.randint(50, (bs,), device=meter.device)

    def learn(clips):
        every = clips.shape[1] // FRAMES
        with meter.autocast():
            loss = nn.functional.cross_entropy(model(clips[:, ::every]), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    there = torch.zeros(bs, FRAMES, 3, side, side, device=meter.device)
    meter.calibrate(lambda: learn(there))
    unit = host_clips(bs, side, FRAMES, False)[0]
    copy_s = meter.timed_s(lambda: unit.to(meter.device, copy=True))
    more = max(1, min(16, round(meter.added_s / copy_s)))
    healthy = meter.gpu and not meter.sick
    feed = (CopyAhead if healthy else CopyNow)(host_clips(bs, side, more * FRAMES, healthy), meter.device)
    while meter.going_on():
        learn(next(feed))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
