"""A model of fishing: boats in processes write to shared memory; semaphores say whose turn it is.

How long a boat is out is the dose. A perfect diagnosis: while the boats are out, the GPU waits, and while it
learns, they wait (the semaphore marked below). Fix: two halves of the memory, one written while the other is
learned from.
"""

import math
import multiprocessing
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

POND, ROWS = 8, 64


def boat(number, shared, trips, go, back):
    """Fishes whenever told to, into the half of the memory it is told."""
    catch = np.frombuffer(shared, np.float32).reshape(2, -1, ROWS, POND)
    stock, half = [0.5] * POND, 0
    while True:
        go.acquire()
        for trip in range(trips.value):
            for n in range(POND):
                grown = stock[n] + 0.3 * stock[n] * (1 - stock[n])
                stock[n] = grown - 0.1 * (1 + math.sin(trip + number)) * stock[n - 1]
                stock[n] = min(max(stock[n], 0.01), 1.0)
            catch[half, number, trip % ROWS] = stock
        half = 1 - half
        back.release()


@dataclass
class Fleet:
    """The boats, and what is needed to speak with them."""

    boats: int

    def __post_init__(self):
        context = multiprocessing.get_context("fork")
        self.shared = context.RawArray("f", 2 * self.boats * ROWS * POND)
        self.trips = context.RawValue("i", 1)
        self.go, self.back = ([context.Semaphore(0) for _ in range(self.boats)] for _ in range(2))
        self.catch = np.frombuffer(self.shared, np.float32).reshape(2, -1, POND)
        self.processes = [
            context.Process(target=boat, args=(n, self.shared, self.trips, *pair), daemon=True)
            for n, pair in enumerate(zip(self.go, self.back, strict=True))
        ]
        self.half = 0
        for process in self.processes:
            process.start()

    def send(self):
        for go in self.go:
            go.release()

    def wait(self):
        for back in self.back:
            back.acquire()  # planted
        self.half = 1 - self.half
        return self.catch[1 - self.half]

    def stop(self):
        for process in self.processes:
            process.terminate()


class PondModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(POND, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, POND)

    def forward(self, stock):
        h = self.enter(stock)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return stock + self.leave(h).float()


def trips_taking(meter, fleet, wanted_s):
    times = []
    for trips in (1, 101):
        fleet.trips.value = trips
        times.append(meter.timed_s(lambda: (fleet.send(), fleet.wait()), calls=10))
    return max(1, round((wanted_s - times[0]) * 100 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    fleet = Fleet(meter.pick(4, 1))
    rows = meter.pick(8192, 128)
    model = PondModel(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=meter.gpu)
    seen = torch.rand(rows, POND, device=meter.device)

    def learn(catch):
        new = torch.from_numpy(catch[:rows].copy())
        seen[: len(new)] = new.to(meter.device)
        with meter.autocast():
            ahead = model(seen)
        loss = F.mse_loss(ahead[:-1], seen[1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.sync()

    meter.calibrate(lambda: learn(fleet.catch[0]))
    fleet.trips.value = trips_taking(meter, fleet, meter.added_s) if meter.dose else 1
    if not meter.sick:
        fleet.send()
    while meter.going_on():
        with meter.injecting():
            if meter.sick:
                fleet.send()
            catch = fleet.wait()
        if not meter.sick:
            fleet.send()
        learn(catch)
        meter.ticked()
    meter.report(excess=meter.gpu)
    fleet.stop()


if __name__ == "__main__":
    main()
