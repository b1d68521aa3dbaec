"""Healthy control: a net that completes point sets, saved by a thread from a copy of its weights.

Tempting: a checkpoint every hundred and fifty steps, and a second thread; but the copy is quickly made, and
the thread writes beside the training. A perfect diagnosis: healthy, nothing to mend. The dose is taken and
does nothing; there is no planted line.
"""

import queue
import tempfile
import threading
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

POINTS = 96


class Completion(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(3 * POINTS, width), nn.Linear(width, 3 * POINTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, points):
        h = self.enter(points.flatten(1))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return points + self.leave(h).float().view_as(points)


class Writer(threading.Thread):
    """One state at a time; one that comes while it writes is left out."""

    def __init__(self, folder, net, gpu):
        super().__init__(daemon=True)
        self.folder, self.gpu, self.orders, self.idle = folder, gpu, queue.Queue(), threading.Event()
        room = {name: torch.empty_like(weight, device="cpu") for name, weight in net.state_dict().items()}
        self.room = {name: place.pin_memory() for name, place in room.items()} if gpu else room
        self.idle.set()

    def offer(self, net):
        if not self.idle.is_set():
            return
        self.idle.clear()
        for name, weight in net.state_dict().items():
            self.room[name].copy_(weight, non_blocking=True)
        copied = torch.cuda.Event() if self.gpu else None
        if copied:
            copied.record()
        self.orders.put((True, copied))

    def run(self):
        while (order := self.orders.get())[0]:
            if order[1]:
                order[1].synchronize()
            for name, place in self.room.items():
                np.save(self.folder / f"{name}.npy", place.numpy())
            self.idle.set()

    def close(self):
        self.orders.put((False, None))
        self.join()


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 128)
    net = Completion(*meter.pick((4096, 5), (256, 4))).to(meter.device)
    optimizer = torch.optim.NAdam(net.parameters(), 1e-5, foreach=True)
    whole = torch.randn(rows, POINTS, 3, device=meter.device)

    def tick():
        seen = whole * (torch.rand(rows, POINTS, 1, device=meter.device) > 0.3)
        with meter.autocast():
            guess = net(seen)
        loss = F.smooth_l1_loss(guess, whole)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(tick)
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder), net, meter.gpu)
        writer.start()
        while meter.going_on():
            tick()
            meter.ticked()
            if meter.ticks % 150 == 0:
                writer.offer(net)
        meter.report()
        writer.close()


if __name__ == "__main__":
    main()
