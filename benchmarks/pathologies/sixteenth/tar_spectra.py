"""Which machine hums? Recordings lie in tar files, which a chain of generators reads and decodes.

A recording's spectrum is taken as a whole, window by window, and then made short. How long recordings are
is the dose. A perfect diagnosis: the training thread loads its own batches (in the chain, or where it is
drawn from; all marked). Fix: the chain runs in a worker.
"""

import io
import itertools
import random
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

WINDOW, BINS, COLUMNS, MACHINES, BATCH, PER_SHARD = 256, 64, 24, 7, 12, 32


def write_shards(folder, windows, shards=2):
    """As others write them: `KEY.pcm` beside `KEY.cls`."""
    folder.mkdir()
    noise = np.random.default_rng(0)
    for shard in range(shards):
        with tarfile.open(folder / f"hum-{shard:04}.tar", "w") as tar:
            for number in range(PER_SHARD):
                sound = noise.normal(0, 3000, windows * WINDOW // 2 + WINDOW).astype(np.int16)
                for kind, body in (("pcm", sound.tobytes()), ("cls", str(number % MACHINES).encode())):
                    info = tarfile.TarInfo(f"{shard:04}{number:04}.{kind}")
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))
    return folder


def members(paths):
    for path in itertools.cycle(paths):
        with tarfile.open(path, "r|") as tar:
            for info in tar:
                key, kind = info.name.split(".")
                yield key, kind, tar.extractfile(info).read()


def samples(stream):
    for key, group in itertools.groupby(stream, key=lambda member: member[0]):
        yield {"key": key} | {kind: body for _, kind, body in group}


def shuffled(stream, rng, size=24):
    held = list(itertools.islice(stream, size))
    for sample in stream:
        place = rng.randrange(size)
        yield held[place]
        held[place] = sample


def spectrum(sound):
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[:: WINDOW // 2]
    return np.log1p(np.abs(np.fft.rfft(windows * np.hanning(WINDOW), axis=1))[:, :BINS])  # planted


def decoded(stream):
    for sample in stream:
        sound = np.frombuffer(sample["pcm"], np.int16).astype(np.float32) / 32768
        rows = spectrum(sound)  # planted
        begins = np.arange(COLUMNS) * len(rows) // COLUMNS
        columns = np.add.reduceat(rows, begins) * (COLUMNS / len(rows))
        yield columns.T.astype(np.float32), int(sample["cls"])


def batched(stream, size):
    while True:
        spectra, machines = zip(*itertools.islice(stream, size), strict=True)
        yield torch.from_numpy(np.stack(spectra)), torch.tensor(machines)


class Pipeline(IterableDataset):
    def __init__(self, folder):
        self.paths = sorted(folder.glob("*.tar"))

    def __iter__(self):
        return batched(decoded(shuffled(samples(members(self.paths)), random.Random(4))), BATCH)


class HumNet(nn.Module):
    def __init__(self, size=192):
        super().__init__()
        self.enter = nn.Conv1d(BINS, size, 5, padding=2)
        self.blocks = nn.ModuleList(nn.Conv1d(size, size, 5, padding=2) for _ in range(3))
        self.norms = nn.ModuleList(nn.GroupNorm(4, size) for _ in range(3))
        self.out = nn.Linear(2 * size, MACHINES)

    def forward(self, spectra):
        h = self.enter(spectra)
        for block, norm in zip(self.blocks, self.norms, strict=True):
            h = h + F.gelu(block(norm(h)))
        return self.out(torch.cat([h.mean(2), h.amax(2)], 1))


def main():
    meter = Meter(__doc__)
    net = HumNet().to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-4)

    def train_on(spectra, machines):
        loss = F.cross_entropy(net(spectra.to(meter.device)), machines.to(meter.device), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    blank = torch.rand(BATCH, BINS, COLUMNS), torch.zeros(BATCH, dtype=torch.long)
    meter.calibrate(lambda: train_on(*blank))
    with tempfile.TemporaryDirectory() as folder:
        folder, windows = Path(folder), COLUMNS
        if meter.dose:

            def loading(windows):
                stream = iter(Pipeline(write_shards(folder / f"try{windows}", windows)))
                next(stream)
                return lambda: next(stream)

            windows = amount_taking(meter, loading, COLUMNS, 300, meter.added_s, calls=8)
        pipeline = Pipeline(write_shards(folder / "hums", windows))
        if not meter.sick:
            pipeline = DataLoader(pipeline, batch_size=None, num_workers=1)
        batches = iter(pipeline)
        for _ in range(3):
            train_on(*next(batches))
        while meter.going_on():
            with meter.injecting():
                batch = next(batches)  # planted
            train_on(*batch)
            meter.ticked()
        meter.report()
        del batches


if __name__ == "__main__":
    main()
