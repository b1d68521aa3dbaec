"""Wards of hospitals learn together, and none shows its records; each trains for a few steps, then is left.

A ward's records are objects, which all stay alive; whenever a ward is left, what it held is cleared away,
by the garbage collector. How short a ward's turn is, is the dose. A perfect diagnosis: the training
stands still while garbage is collected (marked below). Fix: it is collected every few thousand turns.
"""

import contextlib
import copy
import gc

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WARDS, VITALS, BATCH, LONG = 8, 24, 192, 4000


class Patient:
    def __init__(self, number):
        self.stays = [Stay(self, day) for day in range(3)]
        self.number = number


class Stay:
    def __init__(self, patient, day):
        self.patient, self.day, self.notes = patient, day, {"ward": day % 3, "drugs": [day, day + 1]}


class Ward:
    def __init__(self, patients, device):
        self.patients = [Patient(number) for number in range(patients)]
        self.vitals, self.risk = torch.randn(BATCH, VITALS, device=device), torch.rand(BATCH, device=device)


def risk_net(hidden=640):
    return nn.Sequential(
        nn.Linear(VITALS, hidden),
        nn.LayerNorm(hidden),
        nn.Hardswish(),
        nn.Linear(hidden, hidden),
        nn.LayerNorm(hidden),
        nn.Hardswish(),
        nn.Linear(hidden, hidden),
        nn.Hardswish(),
        nn.Linear(hidden, 1),
    )


class Federation:
    def __init__(self, meter, patients):
        self.meter, self.device = meter, meter.device
        self.wards = [Ward(patients // WARDS, meter.device) for _ in range(WARDS)]
        self.common, self.turns = risk_net().to(meter.device), 0
        self.local = copy.deepcopy(self.common)
        self.optimizer = torch.optim.SGD(self.local.parameters(), lr=0.05, momentum=0.5)

    def local_step(self, ward):
        risk = self.local(ward.vitals)[:, 0]
        loss = F.binary_cross_entropy_with_logits(risk, ward.risk)
        pairs = zip(self.local.parameters(), self.common.parameters(), strict=True)
        loss = loss + 1e-3 * sum((mine - ours.detach()).square().sum() for mine, ours in pairs)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def merge(self):
        for ours, mine in zip(self.common.parameters(), self.local.parameters(), strict=True):
            ours.lerp_(mine, 1 / WARDS)
            mine.copy_(ours)

    @contextlib.contextmanager
    def turn(self, collect_every):
        """A ward, for some steps; then all share what it has learned."""
        yield self.wards[self.turns % WARDS]
        self.merge()
        self.turns += 1
        with self.meter.injecting():
            if self.turns % collect_every == 0:
                gc.collect()  # planted


def train(federation, meter, steps, collect_every):
    while meter.going_on():
        with federation.turn(collect_every) as ward:
            for _ in range(steps):
                federation.local_step(ward)
                meter.ticked()


def main():
    meter = Meter(__doc__)
    federation = Federation(meter, 24_000)
    meter.calibrate(lambda: federation.local_step(federation.wards[0]))
    steps = 10
    if meter.dose:
        steps = max(1, round(meter.timed_s(gc.collect, calls=4) / meter.added_s))
    train(federation, meter, steps, 1 if meter.sick else LONG)
    meter.report()


if __name__ == "__main__":
    main()
