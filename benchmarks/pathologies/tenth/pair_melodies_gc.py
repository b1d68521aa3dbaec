"""Two faults: melodies are judged by a net that stayed on the CPU, and garbage is collected by hand.

Each takes three quarters of a dose. A perfect diagnosis names both: a part of the model on the CPU, for
which the GPU waits (first marked line), and the garbage collector's pauses (second). Fix: the judge on the
GPU, and nobody collects by hand.
"""

import gc

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, PITCHES, BARS = 0.75, 64, 48


class Note:
    """Of a song book, each tied to the one before."""

    def __init__(self, before):
        self.before, self.after, self.ties = before, None, []
        if before is not None:
            before.after = self


def song_book(count):
    last = None
    for _ in range(count):
        last = Note(last)
    return last


class Judge(nn.Module):
    """Knows what people like; frozen."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(PITCHES, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(),
                                    nn.Linear(256, 1))  # fmt: skip
        self.requires_grad_(False)

    def forward(self, melodies):
        return self.layers(melodies)[:, 0]  # planted


class Composer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(BARS, width), nn.Linear(width, PITCHES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, bars):
        h = self.enter(bars)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Studio:
    def __init__(self, meter):
        self.meter, self.rows, self.judged = meter, meter.pick(8192, 64), 64
        self.composer = Composer(*meter.pick((4096, 5), (160, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.composer.parameters(), 1e-5, fused=meter.gpu)
        self.bars = torch.randn(self.rows, BARS, device=meter.device)

    def step(self, judge):
        with self.meter.autocast():
            melodies = self.composer(self.bars)
        place = next(judge.parameters()).device
        heard = melodies.detach().repeat(-(-self.judged // self.rows), 1)[: self.judged]
        liked = judge(heard.to(place)).to(self.meter.device).mean()
        loss = melodies.square().mean() * (1 - liked.tanh())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Housekeeping:
    def __init__(self, every):
        self.every = every

    def after(self, step):
        if step % self.every == 0:
            gc.collect()  # planted


def melody_s(meter, judge):
    times = []
    for count in (512, 4608):
        melodies = torch.randn(count, PITCHES)
        times.append(meter.timed_s(lambda m=melodies: judge(m), calls=8))
    return max(1e-8, (times[1] - times[0]) / 4096)


def main():
    meter = Meter(__doc__)
    studio, judge, book = Studio(meter), Judge(), song_book(meter.pick(200_000, 50_000))
    moved, housekeeping = Judge().to(meter.device), Housekeeping(10_000_000)
    meter.calibrate(lambda: studio.step(moved))
    part_s = PART * meter.added_s
    if meter.dose:
        studio.judged = max(64, round(part_s / melody_s(meter, judge)))
    if meter.sick:
        housekeeping.every = max(1, round(meter.timed_s(gc.collect) / part_s))
    asked = judge if meter.sick else moved
    while meter.going_on():
        studio.step(asked)
        meter.ticked()
        housekeeping.after(meter.ticks)
    meter.report(excess=True)
    del book


if __name__ == "__main__":
    main()
