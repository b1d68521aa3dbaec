"""Speech to sounds; each batch is cut to the length of its longest sentence, and the lengths are on the GPU.

A slice needs a plain number, so the host waits for the GPU, and only then draws the masks that hide parts
of the spectrum. Doses 1 to 3 cost about 17, 33 and 46 %. A perfect diagnosis names the wait, marked below.
Fix: the lengths are kept on the host as well.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SHARES = (0.0, 0.2, 0.5, 0.85)
MELS, SOUNDS, FRAMES = 80, 48, 128


class HiddenBands:
    """Bands of frequencies and stretches of time to hide, for the whole batch."""

    def __init__(self, bands=1):
        self.rng, self.bands = np.random.default_rng(0), bands
        self.mels, self.frames = np.arange(MELS), np.arange(FRAMES)

    def draw(self):
        shown = np.ones((FRAMES, MELS), np.float32)
        for _ in range(self.bands):
            low, first = self.rng.integers(0, MELS - 4), self.rng.integers(0, FRAMES - 4)
            shown *= 1 - 0.1 * np.multiply.outer(self.frames // 4 == first // 4, self.mels // 4 == low // 4)
        return torch.from_numpy(shown)


class Corpus:
    """A few batches of sentences, the longest of each as long as can be."""

    def __init__(self, batch, device):
        self.spectra = torch.randn(batch, FRAMES, MELS, device=device)
        self.sounds = torch.randint(SOUNDS, (batch, FRAMES), device=device)
        lengths = torch.randint(FRAMES // 2, FRAMES + 1, (batch,))
        lengths[0] = FRAMES
        self.longest, self.lengths = int(lengths.max()), lengths.to(device)

    def cut_on_gpu(self):
        return self.spectra[:, : self.lengths.max()]  # planted

    def cut_on_host(self):
        return self.spectra[:, : self.longest]


class Recogniser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.sound = nn.Linear(MELS, width), nn.Linear(width, SOUNDS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, spectra):
        h = self.enter(spectra)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.sound(h).float()


class Training:
    def __init__(self, meter):
        self.meter = meter
        self.corpus, self.bands = Corpus(meter.pick(64, 2), meter.device), HiddenBands()
        self.net = Recogniser(*meter.pick((4096, 5), (64, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.frames = torch.arange(FRAMES, device=meter.device)

    def step(self, cut):
        spectra = cut()
        shown = self.bands.draw()
        shown = (shown.pin_memory() if self.meter.gpu else shown).to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            scores = self.net(spectra * shown[: spectra.shape[1]])
        loss = F.cross_entropy(scores.flatten(0, 1), self.corpus.sounds.flatten(), reduction="none")
        spoken = (self.frames < self.corpus.lengths[:, None]).flatten()
        self.optimizer.zero_grad(set_to_none=True)
        ((loss * spoken).sum() / spoken.sum()).backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    corpus, bands = training.corpus, training.bands
    meter.calibrate(lambda: training.step(corpus.cut_on_host))
    plain_s = meter.timed_s(bands.draw, calls=10)
    bands.bands = 41
    band_s = (meter.timed_s(bands.draw, calls=10) - plain_s) / 40
    bands.bands = max(1, round((SHARES[meter.dose] * meter.healthy_s - plain_s) / band_s))
    cut = corpus.cut_on_gpu if meter.sick else corpus.cut_on_host
    while meter.going_on():
        training.step(cut)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
