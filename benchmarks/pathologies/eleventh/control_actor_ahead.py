"""Healthy control: a gardening robot in a process of its own, and a learner that takes what has come.

Tempting: a process that acts, and a queue between it and the learner; but the robot keeps real time and
sleeps in between, and the learner never waits for it, as it learns from what it has. A perfect diagnosis:
healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import multiprocessing
import queue
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, TOOLS, REAL_TIME_S = 14, 4, 0.02


def garden(out, over):
    """One plot after another; the reward is how wet it is."""
    rng, plot = random.Random(0), [0.5] * SEEN
    while not over.is_set():
        tool = rng.randrange(TOOLS)
        plot = [0.98 * wet + 0.02 * (tool == n % TOOLS) for n, wet in enumerate(plot)]
        try:
            out.put_nowait((plot, tool, sum(plot)))
        except queue.Full:
            pass
        time.sleep(REAL_TIME_S)


class Robot:
    def __enter__(self):
        context = multiprocessing.get_context("fork")
        self.out, self.over = context.Queue(64), context.Event()
        self.process = context.Process(target=garden, args=(self.out, self.over), daemon=True)
        self.process.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.process.terminate()
        self.process.join()

    def what_has_come(self):
        try:
            while True:
                yield self.out.get_nowait()
        except queue.Empty:
            return


class Worth(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, TOOLS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.leave(h).float()


class Learner:
    def __init__(self, meter, robot):
        self.meter, self.robot, rows = meter, robot, meter.pick(8192, 128)
        self.worth = Worth(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.worth.parameters(), 1e-5, fused=meter.gpu)
        self.past, self.at = torch.rand(rows, SEEN + 2, device=meter.device), 0

    def remember(self):
        came = [[*plot, float(tool), reward] for plot, tool, reward in self.robot.what_has_come()]
        if came:
            new = torch.from_numpy(np.array(came, np.float32))[: len(self.past) - self.at]
            new = new.pin_memory() if self.meter.gpu else new
            self.past[self.at : self.at + len(new)].copy_(new, non_blocking=True)
            self.at = (self.at + len(new)) % len(self.past)

    def tick(self):
        self.remember()
        seen, tool, reward = self.past.split((SEEN, 1, 1), 1)
        with self.meter.autocast():
            worth = self.worth(seen).gather(1, tool.long().clamp(0, TOOLS - 1))
        loss = F.smooth_l1_loss(worth, reward)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    with Robot() as robot:
        learner = Learner(meter, robot)
        meter.calibrate(learner.tick)
        while meter.going_on():
            learner.tick()
            meter.ticked()
        meter.report()


if __name__ == "__main__":
    main()
