"""Two faults: each ferry of a harbour asks the pilot's net for itself, and garbage is collected by hand.

Each takes three quarters of a dose. A perfect diagnosis names both: an inference of one ferry at a time
(first marked line), and the garbage collector's pauses (second). Fix: one batch of all ferries, and nobody
collects by hand.
"""

import gc

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SEEN, RUDDER = 0.75, 9, 7


class Ferry:
    def __init__(self, number):
        self.seen = np.random.default_rng(number).random(SEEN, dtype=np.float32)

    def steer(self, rudder):
        self.seen[rudder] *= 0.9
        self.seen[-1] = 1.0 - self.seen[0]


class Ticket:
    """Sold on a crossing; knows the ones before and after."""

    def __init__(self, before):
        self.before, self.after, self.stamps = before, None, []
        if before is not None:
            before.after = self


def tickets(count):
    last = None
    for _ in range(count):
        last = Ticket(last)
    return last


class Pilot(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden, self.rudder = nn.Linear(SEEN, width), nn.Linear(width, RUDDER)

    def forward(self, seen):
        return self.rudder(torch.tanh(self.hidden(seen)))


class TideModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, SEEN)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Harbour:
    def __init__(self, meter):
        self.meter, self.rows, self.at = meter, meter.pick(8192, 128), 0
        self.pilot = Pilot(meter.pick(512, 64)).to(meter.device)
        self.model = TideModel(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.pilot.parameters(), *self.model.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.seen = torch.rand(self.rows, SEEN, device=meter.device)
        self.ferries = [Ferry(n) for n in range(4)]

    @torch.inference_mode()
    def ask(self, seen):
        return self.pilot(torch.from_numpy(seen).to(self.meter.device)).argmax(1).tolist()

    def one_by_one(self):
        for ferry in self.ferries:
            ferry.steer(self.ask(ferry.seen[None])[0])  # planted

    def in_one_batch(self):
        for ferry, rudder in zip(
            self.ferries, self.ask(np.stack([f.seen for f in self.ferries])), strict=True
        ):
            ferry.steer(rudder)

    def learn(self):
        new = torch.from_numpy(np.stack([ferry.seen for ferry in self.ferries]))[: self.rows - self.at]
        self.seen[self.at : self.at + len(new)] = new.to(self.meter.device)
        self.at = (self.at + len(new)) % self.rows
        with self.meter.autocast():
            ahead, scores = self.model(self.seen), self.pilot(self.seen).float()
        loss = F.mse_loss(ahead, self.seen.roll(-1, 0)) + 0.01 * scores.logsumexp(1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Sweeper:
    def __init__(self, every):
        self.every = every

    def after(self, step):
        if step % self.every == 0:
            gc.collect()  # planted


def main():
    meter = Meter(__doc__)
    harbour, sold, sweeper = Harbour(meter), tickets(meter.pick(200_000, 50_000)), Sweeper(10_000_000)

    def crossing(steer):
        with meter.injecting():
            steer()
        harbour.learn()

    meter.calibrate(lambda: crossing(harbour.in_one_batch))
    part_s = PART * meter.added_s
    if meter.dose:
        each_s = meter.timed_s(harbour.one_by_one, calls=60) / 4
        harbour.ferries = [Ferry(n) for n in range(max(4, round(part_s / each_s)))]
    if meter.sick:
        sweeper.every = max(1, round(meter.timed_s(gc.collect) / part_s))
    meter.injected_s = 0.0
    while meter.going_on():
        crossing(harbour.one_by_one if meter.sick else harbour.in_one_batch)
        meter.ticked()
        with meter.injecting():
            sweeper.after(meter.ticks)
    meter.report(excess=meter.gpu)
    del sold


if __name__ == "__main__":
    main()
