"""Federated learning, simulated: each client trains for some steps, and is then thrown away and collected.

A client holds its records as Python objects; how many the server knows is the dose. A perfect diagnosis: the
training stands still while the garbage collector looks through all of them (marked below). Fix: clients are
dropped, and nobody collects by hand.
"""

import gc
import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FEATURES, LABELS = 96, 10


class Record:
    __slots__ = ("consent", "history", "owner")

    def __init__(self, owner, number):
        self.owner, self.history, self.consent = owner, [number, number + 1], {"until": number}


class Client:
    """A phone: its records know it, and it knows them."""

    def __init__(self, number, records):
        self.number = number
        self.records = [Record(self, n) for n in range(records)]


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Linear(FEATURES, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.label = nn.Linear(width, LABELS)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + F.silu(block(x))
        return self.label(x)


class Server:
    def __init__(self, meter, local_steps=20):
        self.meter, self.local_steps, self.batch = meter, local_steps, meter.pick(8192, 256)
        self.net = Net(*meter.pick((4096, 5), (224, 4))).to(meter.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-3, momentum=0.9, foreach=True)
        self.average = [weight.detach().clone() for weight in self.net.parameters()]
        self.features = torch.randn(4 * self.batch, FEATURES, device=meter.device)
        self.labels = torch.randint(LABELS, (4 * self.batch,), device=meter.device)
        self.waiting = []

    def local_step(self):
        start = int(torch.randint(3 * self.batch, ()))
        rows = slice(start, start + self.batch)
        with self.meter.autocast():
            loss = F.cross_entropy(self.net(self.features[rows]), self.labels[rows])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def merge(self):
        weights = list(self.net.parameters())
        torch._foreach_lerp_(self.average, weights, 0.1)
        torch._foreach_copy_(weights, self.average)

    def round(self, number, tidy):
        client = Client(number, 20)
        for _ in range(self.local_steps):
            self.local_step()
            self.meter.ticked()
        self.merge()
        del client
        if tidy:
            gc.collect()  # planted


def enough_clients(meter, server):
    """Local steps of a round and waiting clients, for a pause of the wanted length at the end of it."""
    bare_s = meter.timed_s(gc.collect)
    server.waiting = [Client(n, 100) for n in range(300)]
    each_s = (meter.timed_s(gc.collect) - bare_s) / 300
    server.local_steps = max(3, math.ceil(1.5 * bare_s / meter.host_s))
    wanted_s = server.local_steps * meter.host_s
    server.waiting = [Client(n, 100) for n in range(max(20, round((wanted_s - bare_s) / each_s)))]


def main():
    meter = Meter(__doc__)
    server = Server(meter)
    meter.calibrate(server.local_step)
    if meter.dose:
        enough_clients(meter, server)
    rounds = 0
    while meter.going_on():
        server.round(rounds, tidy=meter.sick)
        rounds += 1
    meter.report(excess=True)


if __name__ == "__main__":
    main()
