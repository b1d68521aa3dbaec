"""Two faults: each taxi of a town asks the dispatcher's net for itself, and the other is tested very often.

Each takes three quarters of a dose. A perfect diagnosis names both: an inference of one taxi at a time (first
marked line), and evaluations much too often (second). Fix: one batch of all taxis, and an evaluation every
two thousand steps.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SEEN, ZONES, RARELY = 0.75, 12, 20, 2000


class Taxi:
    def __init__(self, number):
        self.rng = np.random.default_rng(number)
        self.seen = self.rng.random(SEEN, dtype=np.float32)

    def drive(self, zone):
        self.seen[number_of(zone)] *= 0.9
        self.seen[0] = zone / ZONES


def number_of(zone):
    return 1 + zone % (SEEN - 1)


class Dispatcher(nn.Module):
    """The small net in the taxis."""

    def __init__(self, width):
        super().__init__()
        self.hidden, self.zone = nn.Linear(SEEN, width), nn.Linear(width, ZONES)

    def forward(self, seen):
        return self.zone(F.relu(self.hidden(seen)))


class Demand(nn.Module):
    """The large one, which foresees where taxis are wanted."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, ZONES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Town:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.dispatcher = Dispatcher(meter.pick(512, 64)).to(meter.device)
        self.demand = Demand(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.dispatcher.parameters(), *self.demand.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.seen = torch.rand(self.rows, SEEN, device=meter.device)
        self.held_out = torch.rand(8, self.rows, SEEN, device=meter.device)
        self.taxis, self.at = [Taxi(n) for n in range(4)], 0

    @torch.inference_mode()
    def send(self, seen):
        scores = self.dispatcher(torch.from_numpy(seen).to(self.meter.device))
        return scores.argmax(1).tolist()

    def each_alone(self):
        for taxi in self.taxis:
            taxi.drive(self.send(taxi.seen[None])[0])  # planted

    def all_together(self):
        for taxi, zone in zip(self.taxis, self.send(np.stack([t.seen for t in self.taxis])), strict=True):
            taxi.drive(zone)

    def remember(self):
        new = np.stack([taxi.seen for taxi in self.taxis[: self.rows - self.at]])
        self.seen[self.at : self.at + len(new)] = torch.from_numpy(new).to(self.meter.device)
        self.at = (self.at + len(new)) % self.rows

    def learn(self):
        with self.meter.autocast():
            wanted, sent = self.demand(self.seen), self.dispatcher(self.seen).float()
        loss = F.mse_loss(wanted[:, :SEEN], self.seen) + F.cross_entropy(sent, wanted.detach().argmax(1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def validate(self):
        self.demand.eval()
        off = torch.zeros((), device=self.meter.device)
        with torch.no_grad(), self.meter.autocast():
            for seen in self.held_out:
                off += F.l1_loss(self.demand(seen)[:, :SEEN], seen)  # planted
        self.demand.train()
        return off.item() / len(self.held_out)


def main():
    meter = Meter(__doc__)
    town, every = Town(meter), RARELY

    def round_of(send):
        with meter.injecting():
            send()
        town.remember()
        town.learn()

    meter.calibrate(lambda: round_of(town.all_together))
    part_s = PART * meter.added_s
    if meter.dose:
        four_s = meter.timed_s(town.each_alone, calls=60)
        town.taxis += [Taxi(n) for n in range(4, max(4, round(4 * part_s / four_s)))]
    if meter.sick:
        every = max(1, round(meter.timed_s(town.validate) / part_s))
    meter.injected_s = 0.0
    while meter.going_on():
        round_of(town.each_alone if meter.sick else town.all_together)
        meter.ticked()
        if meter.ticks % every == 0:
            with meter.injecting():
                town.validate()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
