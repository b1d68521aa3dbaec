"""Spoken keywords, told apart by a GRU; clips are WAV files, which an iterable of the project's own reads.

It opens the files, windows and transforms them in the loop that trains. How long the clips are is the
dose. A perfect diagnosis: loading in the training thread (any line marked below). Fix: the same iterable
in a worker of a DataLoader.
"""

import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

RATE, WINDOW, HOP, MELS, STEPS, KEYWORDS, FILES = 16_000, 400, 160, 40, 24, 35, 12


def write_clips(folder, frames):
    rng = np.random.default_rng(1)
    folder.mkdir(exist_ok=True)
    for number in range(FILES):
        sound = rng.normal(0, 3000, frames * HOP + WINDOW).astype("<i2")
        with wave.open(str(folder / f"clip{number:03}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(sound.tobytes())
    return sorted(folder.glob("*.wav"))


class ClipStream(IterableDataset):
    """Batches of spectrograms without end, shuffled."""

    def __init__(self, paths, batch_size):
        self.paths, self.batch_size = paths, batch_size
        self.rng, self.window = np.random.default_rng(0), np.hanning(WINDOW).astype(np.float32)
        self.bank = np.abs(self.rng.normal(size=(WINDOW // 2 + 1, MELS))).astype(np.float32)

    def load(self, path):
        with wave.open(str(path), "rb") as file:
            sound = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        frames = np.lib.stride_tricks.sliding_window_view(sound / np.float32(32768), WINDOW)[::HOP]
        power = np.abs(np.fft.rfft(frames * self.window)).astype(np.float32) ** 2  # planted
        mel = np.log(power @ self.bank + 1e-6)
        edges = np.linspace(0, len(mel), STEPS + 1).astype(int)[:-1]
        return np.add.reduceat(mel, edges) * (STEPS / len(mel))

    def __iter__(self):
        while True:
            picked = self.rng.integers(0, len(self.paths), self.batch_size)
            clips = [self.load(self.paths[number]) for number in picked]  # planted
            yield torch.from_numpy(np.stack(clips).astype(np.float32)), torch.from_numpy(picked % KEYWORDS)


class Spotter(nn.Module):
    def __init__(self, size=160):
        super().__init__()
        self.norm = nn.BatchNorm1d(MELS)
        self.gru = nn.GRU(MELS, size, num_layers=2, batch_first=True)
        self.head = nn.Linear(size, KEYWORDS)

    def forward(self, clips):
        clips = self.norm(clips.transpose(1, 2)).transpose(1, 2)
        states, _ = self.gru(clips)
        return self.head(states[:, -1])


def train(model, stream, meter):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    criterion, correct, seen = nn.CrossEntropyLoss(), 0.0, 0

    def update(clips, labels):
        nonlocal correct, seen
        clips, labels = clips.to(meter.device), labels.to(meter.device)
        logits = model(clips)
        loss = criterion(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        correct, seen = correct + (logits.argmax(1) == labels).float().sum(), seen + len(labels)

    yield update
    batches = iter(stream())
    update(*next(batches))
    while meter.going_on():
        with meter.injecting():
            clips, labels = next(batches)  # planted
        update(clips, labels)
        meter.ticked()


def main():
    meter, batch_size = Meter(__doc__), 24
    with tempfile.TemporaryDirectory() as folder:
        folder, frames = Path(folder), 30
        paths = write_clips(folder / "short", frames)

        def stream():
            clips = ClipStream(paths, batch_size)
            return clips if meter.sick else DataLoader(clips, batch_size=None, num_workers=1)

        training = train(Spotter().to(meter.device), stream, meter)
        update, blank = next(training), torch.zeros(batch_size, STEPS, MELS)
        meter.calibrate(lambda: update(blank, torch.arange(batch_size)))
        if meter.dose:
            long = write_clips(folder / "long", 130)

            def reading(count):
                batches = iter(ClipStream(long if count > 30 else paths, batch_size))
                return lambda: next(batches)

            frames = amount_taking(meter, reading, 30, 130, meter.added_s, calls=6)
            paths = write_clips(folder / "clips", frames)
        for _ in training:
            pass
        meter.report()


if __name__ == "__main__":
    main()
