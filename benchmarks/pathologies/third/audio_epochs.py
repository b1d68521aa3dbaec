"""An audio tagger on a small set of recordings: an epoch is a few batches, and each starts four new workers.

A perfect diagnosis: at the beginning of each short epoch the training waits for worker processes to start,
and those could be kept (the loader marked below). Fix: persistent workers.
"""

import itertools
import time

import torch
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Recordings(Dataset):
    def __init__(self, count, samples):
        self.count, self.seconds = count, torch.linspace(0, 1, samples)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        tag = i % 10
        return torch.sin(2 * torch.pi * (220 + 55 * tag) * self.seconds), tag


class Tagger(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("window", torch.hann_window(510))
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
        )  # fmt: skip

    def forward(self, sound):
        spectrum = torch.stft(sound, 510, 128, window=self.window, return_complex=True).abs().log1p()
        return self.net(spectrum[:, None].to(memory_format=torch.channels_last))


def make_loader(count, samples, bs, meter):
    keep = not meter.sick
    return DataLoader(
        Recordings(count, samples),
        batch_size=bs,
        shuffle=True,
        num_workers=meter.pick(4, 1),
        pin_memory=meter.gpu,
        persistent_workers=keep,
    )


class Training:
    def __init__(self, meter):
        self.meter = meter
        self.model = Tagger(meter.pick(128, 8)).to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=meter.gpu)

    def batch(self, sound, tags):
        sound = sound.to(self.meter.device, non_blocking=True)
        tags = tags.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            loss = nn.functional.cross_entropy(self.model(sound), tags)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def epoch(self, loader):
        for sound, tags in loader:  # planted
            self.batch(sound, tags)
            self.meter.ticked()
            if not self.meter.going_on():
                return


def start_and_end_s(loader):
    begin_s = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - begin_s


def main():
    meter = Meter(__doc__)
    bs, samples = meter.pick((64, 32_000), (8, 2_000))
    training = Training(meter)
    blank = blanks(meter, torch.zeros(bs, samples), torch.zeros(bs, dtype=torch.long))
    meter.calibrate(lambda: training.batch(*blank))
    batches = 1000
    if meter.dose:
        restart_s = start_and_end_s(make_loader(bs, samples, bs, meter))
        batches = max(1, round(restart_s / (meter.share * meter.healthy_s)))
    loader = make_loader(batches * bs, samples, bs, meter)
    for _ in itertools.takewhile(lambda _: meter.going_on(), itertools.count()):
        training.epoch(loader)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
