"""An LSTM forecaster that streams blocks of series from shards on a mount that answers late.

A perfect diagnosis: the training waits for the loader, and the loader's workers wait for storage without
using a core (the read marked below). Fix: the shards are read from a local copy.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

BLOCK, FEATURES, WORKERS = 64, 32, 4


class Shard:
    """One file of the mount; a read of it takes `latency_s`, whatever it reads."""

    def __init__(self, path, steps, latency_s):
        self.path, self.latency_s = path, latency_s
        self.block_bytes = BLOCK * steps * FEATURES * 4

    def read_block(self, number):
        with self.path.open("rb", buffering=0) as file:
            file.seek(number % 8 * self.block_bytes)
            if self.latency_s:
                time.sleep(self.latency_s)  # planted
            return file.read(self.block_bytes)


class SeriesStream(IterableDataset):
    def __init__(self, paths, steps, blocks, latency_s):
        self.paths, self.steps, self.blocks, self.latency_s = paths, steps, blocks, latency_s

    def __iter__(self):
        info = get_worker_info()
        shard = Shard(self.paths[info.id if info else 0], self.steps, self.latency_s)
        number = 0
        while True:
            parts = [shard.read_block(number + i) for i in range(self.blocks)]
            number += self.blocks
            yield torch.from_numpy(np.frombuffer(b"".join(parts), np.float32).copy()).view(
                -1, self.steps, FEATURES
            )


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.LSTM(FEATURES, hidden, batch_first=True)
        self.out = nn.Linear(hidden, FEATURES)

    def forward(self, x):
        hidden, _ = self.rnn(x)
        return self.out(hidden)


def write_shards(folder, steps):
    rng = np.random.default_rng(0)
    paths = [Path(folder, f"shard-{n:03}.f32") for n in range(WORKERS)]
    for path in paths:
        rng.standard_normal((8 * BLOCK, steps, FEATURES), dtype=np.float32).tofile(path)
    return paths


def main():
    meter = Meter(__doc__)
    hidden, steps, blocks = meter.pick((2048, 65, 8), (32, 9, 1))
    model = Forecaster(hidden).to(meter.device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)

    def learn(series):
        series = series.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = nn.functional.mse_loss(model(series[:, :-1]), series[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(blocks * BLOCK, steps, FEATURES))
    meter.calibrate(lambda: learn(*blank))
    latency_s = WORKERS * meter.beside_s / blocks if meter.sick else 0.0
    with tempfile.TemporaryDirectory() as folder:
        stream = SeriesStream(write_shards(folder, steps), steps, blocks, latency_s)
        loader = DataLoader(stream, batch_size=None, num_workers=WORKERS, pin_memory=meter.gpu)
        batches = iter(loader)
        for _ in range(WORKERS):
            learn(next(batches))
        while meter.going_on():
            learn(next(batches))
            meter.ticked()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
