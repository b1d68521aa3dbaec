"""Sounds get fades and hums on the GPU, over the whole recording, and a short cut of it is learned.

How many effects there are is the dose. A perfect diagnosis: a chain of elementwise kernels, bound by the
GPU's memory (marked below). Fix: the cut first, then the effects.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FRAME, TAGS = 1024, 50


class Effects:
    def __init__(self, samples, count, device):
        phase = torch.linspace(0, 6.28, samples, device=device)
        self.fades = [0.9 + 0.1 * torch.cos((n + 1) * phase) for n in range(4)]
        self.hums = [0.01 * torch.sin(50 * (n + 1) * phase) for n in range(4)]
        self.count = count

    def __call__(self, sound):
        length = sound.shape[1]
        for n in range(self.count):
            fade, hum = self.fades[n % 4][:length], self.hums[n % 4][:length]
            sound = torch.addcmul(hum, sound, fade)  # planted
        return sound


class Tagger(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.frame = nn.Linear(FRAME, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.tags = nn.Linear(width, TAGS)

    def forward(self, frames):
        h = self.frame(frames)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.tags(h.mean(1))


class Training:
    def __init__(self, meter):
        self.meter = meter
        self.sounds, self.samples, self.cut = meter.pick((128, 2**20, 2**16), (4, 2**14, 2**12))
        self.recordings = torch.randn(self.sounds, self.samples, device=meter.device)
        self.truth = (torch.rand(self.sounds, TAGS, device=meter.device) < 0.1).float()
        self.net = Tagger(*meter.pick((4096, 5), (32, 1))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.effects = Effects(self.samples, 0, meter.device)

    def heard(self, cut_first):
        if cut_first:
            return self.effects(self.recordings[:, : self.cut])
        return self.effects(self.recordings)[:, : self.cut]

    def step(self, cut_first):
        frames = self.heard(cut_first).reshape(self.sounds, -1, FRAME)
        with self.meter.autocast():
            logits = self.net(frames)
        loss = F.binary_cross_entropy_with_logits(logits.float(), self.truth)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    meter.calibrate(lambda: training.step(True))
    training.effects.count = 8
    effect_s = meter.timed_s(lambda: training.heard(False), calls=5) / 8
    training.effects.count = round(meter.added_s / effect_s)
    while meter.going_on():
        training.step(not meter.sick)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
