"""Healthy control: a world model whose sequences a thread of this process cuts ahead of the training.

Tempting: no loader, and Python and NumPy beside the training thread; but the queue is never empty. A perfect
diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import queue
import threading

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, MOVED = 64, 6


class Replay:
    """Long recordings in memory; a sequence is a cut of one of them."""

    def __init__(self, length):
        rng = np.random.default_rng(0)
        self.rng, self.length = rng, length
        self.recorded = rng.standard_normal((20, 1000, SEEN + MOVED), dtype=np.float32)

    def sample(self, count):
        which = self.rng.integers(0, len(self.recorded), count)
        start = self.rng.integers(0, 1000 - self.length, count)
        steps = start[:, None] + np.arange(self.length)
        return torch.from_numpy(self.recorded[which[:, None], steps])


class Feeder(threading.Thread):
    def __init__(self, replay, count, pin, ahead=4):
        super().__init__(daemon=True)
        self.replay, self.count, self.pin = replay, count, pin
        self.ready, self.over = queue.Queue(ahead), threading.Event()

    def run(self):
        while not self.over.is_set():
            batch = self.replay.sample(self.count)
            batch = batch.pin_memory() if self.pin else batch
            while not self.over.is_set():
                try:
                    self.ready.put(batch, timeout=0.2)
                    break
                except queue.Full:
                    pass

    def close(self):
        self.over.set()
        self.join()


class WorldModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(SEEN + MOVED, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, SEEN)

    def forward(self, sequence):
        h = self.enter(sequence)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(self.norm(h))


def main():
    meter = Meter(__doc__)
    count, length = meter.pick((256, 33), (8, 17))
    model = WorldModel(*meter.pick((4096, 6), (192, 4))).to(meter.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=meter.gpu)

    def learn(sequence):
        sequence = sequence.to(meter.device, non_blocking=True)
        with meter.autocast():
            guess = model(sequence[:, :-1])
        loss = F.mse_loss(guess.float(), sequence[:, 1:, :SEEN])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    feeder = Feeder(Replay(length), count, meter.gpu)
    feeder.start()
    meter.calibrate(lambda: learn(feeder.ready.get()))
    while meter.going_on():
        learn(feeder.ready.get())
        meter.ticked()
    meter.report()
    feeder.close()


if __name__ == "__main__":
    main()
