"""Gliders learn from recorded flights to find thermals; what each step was worth is worked out beforehand.

That is done in plain Python, step by step from the end of a flight, on lists that then become a tensor. How
many steps are worked out for each update is the dose. A perfect diagnosis: hot lines of Python on the
training thread (any line marked below), for which the GPU waits. Fix: all flights together, by NumPy.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, BANKS, FLIGHTS, LONGEST, FADES, MIX = 10, 5, 64, 2048, 0.99, 0.9


class FlightBook:
    """What every flight wrote down of each step: climb, sink, bank and the value foreseen then."""

    def __init__(self):
        self.array = np.random.default_rng(0).random((FLIGHTS, LONGEST, 4), dtype=np.float32)
        self.lists = [[tuple(step) for step in flight] for flight in self.array.tolist()]


def worth_by_steps(book, steps):
    every = []
    for flight in book.lists:
        worth, value_after, backwards = 0.0, 0.0, []
        for climb, sink, bank, value in reversed(flight[:steps]):
            reward = climb - 0.3 * sink * sink - 0.05 * abs(bank - 0.5)  # planted
            worth = reward + FADES * ((1 - MIX) * value_after + MIX * worth)  # planted
            value_after = value
            backwards.append(worth)  # planted
        every.extend(reversed(backwards))
    return torch.tensor(every)


def worth_by_flights(book, steps):
    climb, sink, bank, value = np.moveaxis(book.array[:, :steps], 2, 0)
    reward = climb - 0.3 * sink * sink - 0.05 * np.abs(bank - 0.5)
    worth, value_after, every = (
        np.zeros(FLIGHTS, np.float32),
        np.zeros(FLIGHTS, np.float32),
        np.empty_like(reward),
    )
    for step in range(steps - 1, -1, -1):
        worth = reward[:, step] + FADES * ((1 - MIX) * value_after + MIX * worth)
        every[:, step], value_after = worth, value[:, step]
    return torch.from_numpy(every.ravel())


class Pilot(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, BANKS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class School:
    """The newest steps take the place of the oldest; each update is about as many rows."""

    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 96)
        self.pilot = Pilot(*meter.pick((4096, 5), (192, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.pilot.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(self.rows, SEEN, device=meter.device)
        self.bank = torch.randint(BANKS, (self.rows, 1), device=meter.device)
        self.worth = torch.zeros(FLIGHTS * LONGEST, device=meter.device)

    def update(self, fresh):
        fresh = fresh.pin_memory() if self.meter.gpu else fresh
        self.worth[: len(fresh)].copy_(fresh, non_blocking=True)
        with self.meter.autocast():
            guess = self.pilot(self.seen).gather(1, self.bank)
        loss = F.smooth_l1_loss(guess[:, 0], self.worth[: self.rows])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    school, book, steps = School(meter), FlightBook(), 4
    meter.calibrate(lambda: school.update(worth_by_flights(book, 4)))
    if meter.dose:
        each_s = meter.timed_s(lambda: worth_by_steps(book, 200), calls=6) / 200
        steps = min(LONGEST, max(4, round(meter.host_s / each_s)))
    work_out = worth_by_steps if meter.sick else worth_by_flights
    while meter.going_on():
        with meter.injecting():
            fresh = work_out(book, steps)
        school.update(fresh)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
