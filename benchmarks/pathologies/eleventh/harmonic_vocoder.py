"""A vocoder of sung notes: harmonics are added up over all samples of all notes, of which a few are learned.

How many harmonics there are is the dose. A perfect diagnosis: elementwise passes over huge tensors, bound by
the GPU's memory (marked below). Fix: one period as a table, from which samples are looked up.
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TABLE, FRAME = 1024, 256


class Oscillators:
    """(notes, samples) of phases, in turns, and how loud each harmonic is."""

    def __init__(self, meter):
        notes, samples = meter.pick((256, 131_072), (4, 1024))
        pitch = torch.linspace(0.002, 0.02, notes, device=meter.device)[:, None]
        self.phase = (pitch * torch.arange(samples, device=meter.device)).frac()
        self.device = meter.device
        self.tune(2)

    def tune(self, harmonics):
        self.loud = [1.0 / (n + 1) for n in range(harmonics)]

    def added_up(self):
        sound = torch.zeros_like(self.phase)
        for n, loud in enumerate(self.loud):
            sound = sound + loud * torch.sin(2 * math.pi * (n + 1) * self.phase)  # planted
        return sound

    def looked_up(self):
        turn = torch.arange(TABLE, device=self.device) / TABLE
        number = torch.arange(1, len(self.loud) + 1, device=self.device)
        period = torch.sin(2 * math.pi * number[:, None] * turn).mul(1.0 / number[:, None]).sum(0)
        return period[(self.phase * TABLE).int().clamp_(0, TABLE - 1)]


class Vocoder(nn.Module):
    """From a frame with noise to the frame."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(FRAME, width), nn.Linear(width, FRAME)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, frames):
        h = self.enter(frames)
        for layer in self.body:
            h = h + torch.tanh(layer(h))
        return frames + self.leave(h).float()


class Studio:
    def __init__(self, meter):
        self.meter, self.frames = meter, meter.pick(8192, 16)
        self.net, self.oscillators = Vocoder(*meter.pick((4096, 5), (64, 3))), Oscillators(meter)
        self.net.to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def step(self, synthesis):
        with torch.no_grad():
            clean = synthesis().view(-1, FRAME)[: self.frames]
        noisy = clean + 0.1 * torch.randn_like(clean)
        with self.meter.autocast():
            guess = self.net(noisy)
        loss = F.l1_loss(guess, clean)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    studio = Studio(meter)
    oscillators = studio.oscillators
    meter.calibrate(lambda: studio.step(oscillators.looked_up))
    if meter.dose:
        oscillators.tune(16)
        each_s = meter.timed_s(oscillators.added_up, calls=5) / 16
        oscillators.tune(max(2, round(meter.added_s / each_s)))
    synthesis = oscillators.added_up if meter.sick else oscillators.looked_up
    while meter.going_on():
        studio.step(synthesis)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
