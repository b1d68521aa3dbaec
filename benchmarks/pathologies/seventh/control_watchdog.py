"""Healthy control: off-policy learning from a replay with priorities, while a thread watches over the run.

Tempting: a replay sampled on the CPU in every step, and a Python thread beside the training; but NumPy draws
a few rows at once, and the thread sleeps. A perfect diagnosis: healthy, nothing to mend. The dose is taken
and does nothing; there is no planted line.
"""

import threading
import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, ACTIONS, DRAWN = 20, 6, 32


class Watchdog(threading.Thread):
    """Notices when nothing goes on any more."""

    def __init__(self, patience_s=30.0):
        super().__init__(daemon=True)
        self.seen_s, self.patience_s = time.monotonic(), patience_s
        self.over, self.worried = threading.Event(), False

    def alive(self):
        self.seen_s = time.monotonic()

    def run(self):
        while not self.over.wait(0.25):
            self.worried = time.monotonic() - self.seen_s > self.patience_s

    def close(self):
        self.over.set()
        self.join()


class Replay:
    def __init__(self, room=20_000):
        self.rng = np.random.default_rng(0)
        self.rows = self.rng.standard_normal((room, 2 * SEEN + 2), dtype=np.float32)
        self.sums = np.cumsum(self.rng.random(room))

    def sample(self):
        chosen = np.searchsorted(self.sums, self.rng.random(DRAWN) * self.sums[-1])
        return torch.from_numpy(self.rows[chosen])


class Dueling(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(SEEN, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.better = nn.Linear(width, ACTIONS)

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        better = self.better(h).float()
        return self.value(h).float() + better - better.mean(1, keepdim=True)


class Learner:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.net = Dueling(*meter.pick((4096, 4), (320, 5))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.drawn, self.at = torch.randn(self.rows, 2 * SEEN + 2, device=meter.device), 0

    def put(self, fresh):
        fresh = fresh.pin_memory() if self.meter.gpu else fresh
        self.drawn[self.at : self.at + DRAWN].copy_(fresh, non_blocking=True)
        self.at = (self.at + DRAWN) % self.rows

    def learn(self):
        seen, then, reward, action = self.drawn.split((SEEN, SEEN, 1, 1), 1)
        chosen = action.abs().long().clamp(max=ACTIONS - 1)
        with self.meter.autocast():
            value = self.net(seen).gather(1, chosen)
            with torch.no_grad():
                ahead = self.net(then).amax(1, keepdim=True)
        loss = F.huber_loss(value, reward + 0.97 * ahead)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    learner, replay, watchdog = Learner(meter), Replay(), Watchdog()
    watchdog.start()

    def tick():
        learner.put(replay.sample())
        learner.learn()
        watchdog.alive()

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()
    watchdog.close()


if __name__ == "__main__":
    main()
