"""Healthy control: when do tomatoes ripen, by a small convolution over weeks; threads look after the run.

Tempting: two Python threads beside the training; but one sleeps nearly always, and the other waits for a
queue. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import queue
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SENSORS, DAYS, BATCH = 8, 48, 32


class Watch(threading.Thread):
    """How much memory the run has had at most, every twentieth of a second."""

    def __init__(self):
        super().__init__(name="watch", daemon=True)
        self.over, self.seen = threading.Event(), []

    def run(self):
        while not self.over.wait(0.05):
            self.seen.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            del self.seen[:-100]


class Journal:
    def __init__(self):
        self.lines, self.pool, self.text = queue.SimpleQueue(), ThreadPoolExecutor(1), []
        self.pool.submit(self.write)

    def write(self):
        while (line := self.lines.get()) is not None:
            self.text.append(" ".join(f"{name}={value}" for name, value in line.items()))

    def close(self):
        self.lines.put(None)
        self.pool.shutdown()


class Ripening(nn.Module):
    def __init__(self, width=88):
        super().__init__()
        self.enter = nn.Conv1d(SENSORS, width, 5, padding=2)
        self.body = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(3))
        self.days = nn.Linear(width, 1)

    def forward(self, weeks):
        h = self.enter(weeks)
        for conv in self.body:
            h = h + F.leaky_relu(conv(h))
        return self.days(h.mean(2))[:, 0]


def main():
    meter = Meter(__doc__)
    net = Ripening().to(meter.device)
    optimizer = torch.optim.Rprop(net.parameters(), lr=1e-4)
    weeks = torch.randn(BATCH, SENSORS, DAYS, device=meter.device)
    days = weeks.mean((1, 2)).abs()

    def step():
        loss = F.l1_loss(net(weeks.roll(meter.ticks, 2)), days)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    meter.calibrate(step)
    watch, journal = Watch(), Journal()
    watch.start()
    while meter.going_on():
        loss = step()
        meter.ticked()
        if meter.ticks % 50 == 0:
            journal.lines.put({"step": meter.ticks, "loss": loss.detach()})
    meter.report()
    journal.close()
    watch.over.set()
    watch.join()


if __name__ == "__main__":
    main()
