"""Healthy control: tides at a coast, from a stream of readings; a thread prepares windows ahead, in a queue.

Tempting: a Python thread beside the training, and a queue that is asked in every step; but the thread cuts
a batch in a few calls of NumPy, and then waits for room. A perfect diagnosis: healthy, nothing to mend. The
dose is taken and does nothing; there is no planted line.
"""

import queue
import threading

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

GAUGES, PAST, AHEAD, BATCH, ROOM = 6, 64, 8, 32, 4


class TideStream(threading.Thread):
    def __init__(self):
        super().__init__(name="tides", daemon=True)
        self.rng, self.room, self.over = np.random.default_rng(0), queue.Queue(ROOM), threading.Event()
        hours = np.arange(40_000)[:, None]
        swing = np.sin(hours * 2 * np.pi / (12.4 + 0.2 * np.arange(GAUGES)))
        self.levels = (swing + self.rng.normal(0, 0.1, (40_000, GAUGES))).astype(np.float32)

    def batch(self):
        begins = self.rng.integers(0, len(self.levels) - PAST - AHEAD, BATCH)
        windows = self.levels[begins[:, None] + np.arange(PAST + AHEAD)]
        return torch.from_numpy(windows).split((PAST, AHEAD), 1)

    def run(self):
        while not self.over.is_set():
            try:
                self.room.put(self.batch(), timeout=0.2)
            except queue.Full:
                continue

    def __iter__(self):
        while True:
            yield self.room.get()


class TideNet(nn.Module):
    def __init__(self, size=128):
        super().__init__()
        self.enter = nn.Conv1d(GAUGES, size, 3)
        self.waves = nn.ModuleList(nn.Conv1d(size, size, 3, dilation=2**k) for k in range(1, 4))
        self.out = nn.Linear(size, AHEAD * GAUGES)

    def forward(self, past):
        h = F.silu(self.enter(past.transpose(1, 2)))
        for wave in self.waves:
            after = wave(h)
            h = F.silu(after) + h[:, :, -after.shape[2] :]
        return self.out(h[:, :, -1]).unflatten(1, (AHEAD, GAUGES))


def main():
    meter = Meter(__doc__)
    net, stream = TideNet().to(meter.device), TideStream()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(past, ahead):
        loss = F.mse_loss(net(past.to(meter.device)), ahead.to(meter.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: step(*stream.batch()))
    stream.start()
    for past, ahead in stream:
        if not meter.going_on():
            break
        step(past, ahead)
        meter.ticked()
    meter.report()
    stream.over.set()
    stream.join()


if __name__ == "__main__":
    main()
