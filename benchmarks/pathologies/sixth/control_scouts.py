"""Healthy control: scouts in another process play beside the learner, which takes what there is.

Tempting: a process that rolls out, a queue, and a learner; but neither waits for the other. A perfect
diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import multiprocessing
import queue
import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, STEPS = 8, 16


def scout(found, over, pause_s):
    """Walks, tells, and rests, as a game has its own pace."""
    rng, place = np.random.default_rng(0), np.zeros(SEEN, np.float32)
    while not over.is_set():
        walk = np.empty((STEPS, SEEN), np.float32)
        for n in range(STEPS):
            place = np.tanh(place + 0.1 * rng.standard_normal(SEEN, dtype=np.float32))
            walk[n] = place
        try:
            found.put_nowait(walk)
        except queue.Full:
            pass
        time.sleep(pause_s)


class Curiosity(nn.Module):
    """Foresees the next step; what it cannot foresee is worth a visit."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, SEEN)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, place):
        h = self.enter(place)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return place + self.leave(h).float()


class Learner:
    def __init__(self, meter, found):
        self.meter, self.found, self.walks = meter, found, meter.pick(512, 16)
        self.net = Curiosity(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.replay = torch.rand(self.walks, STEPS, SEEN, device=meter.device)
        self.at = 0

    def take(self):
        """At most one walk, if there is one."""
        try:
            walk = torch.from_numpy(self.found.get_nowait())
        except queue.Empty:
            return
        walk = walk.pin_memory() if self.meter.gpu else walk
        self.replay[self.at].copy_(walk, non_blocking=True)
        self.at = (self.at + 1) % self.walks

    def learn(self):
        self.take()
        with self.meter.autocast():
            guess = self.net(self.replay[:, :-1])
        loss = F.mse_loss(guess, self.replay[:, 1:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    context = multiprocessing.get_context("fork")
    found, over = context.Queue(8), context.Event()
    process = context.Process(target=scout, args=(found, over, 0.02), daemon=True)
    process.start()
    learner = Learner(meter, found)
    meter.calibrate(learner.learn)
    while meter.going_on():
        learner.learn()
        meter.ticked()
    meter.report()
    over.set()
    process.join(1.0)
    if process.is_alive():
        process.terminate()


if __name__ == "__main__":
    main()
