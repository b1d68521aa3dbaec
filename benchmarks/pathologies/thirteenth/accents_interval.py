"""Accents in speech, told apart by attention over frames; a generator yields what to do next.

`val_every` was given as a part of an epoch, and epochs have become short since. How short it is now is the
dose. A perfect diagnosis: evaluation takes too large a part of the time (either line marked below). Fix: an
evaluation every three thousand steps.
"""

from enum import Enum, auto

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BANDS, ACCENTS, RARELY = 40, 14, 3000


class Do(Enum):
    TRAIN = auto()
    VALIDATE = auto()


def schedule(steps, part):
    """What an epoch of so many steps consists of, without end."""
    every = max(1, round(part * steps))
    while True:
        for number in range(1, steps + 1):
            yield Do.TRAIN
            if number % every == 0:
                yield Do.VALIDATE


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.one, self.two = max(1, size // 64), nn.LayerNorm(size), nn.LayerNorm(size)
        self.all, self.join = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, h):
        q, k, v = self.all(self.one(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = h + self.join(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h + self.narrow(F.relu(self.wide(self.two(h))).square())


class AccentNet(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.enter, self.accent = nn.Linear(BANDS, size), nn.Linear(size, ACCENTS)
        self.layers = nn.Sequential(*(Layer(size) for _ in range(depth)))

    def forward(self, frames):
        return self.accent(self.layers(self.enter(frames)).amax(1)).float()


class Speech:
    def __init__(self, meter):
        self.meter, (batch, length) = meter, meter.pick((48, 160), (8, 32))
        self.net = AccentNet(*meter.pick((1024, 6), (48, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.frames = torch.randn(batch, length, BANDS, device=meter.device)
        self.accents = torch.arange(batch, device=meter.device) % ACCENTS
        self.held_out, self.scores = meter.pick(20, 6), []

    def train(self):
        with self.meter.autocast():
            scores = self.net(self.frames)
        loss = F.cross_entropy(scores, self.accents)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.inference_mode()
    def validate(self):
        self.net.eval()
        right = 0
        for number in range(self.held_out):
            with self.meter.autocast():
                scores = self.net(self.frames.roll(number + 1, 1))  # planted
            right = right + (scores.argmax(1) == self.accents).float().mean()
        self.scores.append((right / self.held_out).item())
        self.net.train()

    def follow(self, plan):
        for do in plan:
            if not self.meter.going_on():
                return
            if do is Do.TRAIN:
                self.train()
                self.meter.ticked()
            else:
                with self.meter.injecting():
                    self.validate()  # planted


def main():
    meter = Meter(__doc__)
    speech, steps = Speech(meter), RARELY
    meter.calibrate(speech.train)
    if meter.sick:
        steps = max(2, round(2 * meter.timed_s(speech.validate) / meter.added_s))
    speech.follow(schedule(steps, part=0.5 if meter.sick else 1.0))
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
