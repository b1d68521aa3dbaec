"""A world model learns by heart; lives it imagined are kept as linked objects. The optimizer has a hook.

How many lives are kept is the dose. A perfect diagnosis: the training stands still while the garbage
collector looks through all of them (marked below). Fix: the hook does not collect.
"""

import gc
import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, DEEDS, LIFE = 24, 5, 16


class Moment:
    """Knows what came before and after."""

    def __init__(self, before, deed):
        self.before, self.after, self.deed, self.notes = before, [], deed, {"reward": 0.1 * deed}
        if before is not None:
            before.after.append(self)


class Lives:
    def __init__(self, count):
        self.first = [self.imagined(n) for n in range(count)]

    @staticmethod
    def imagined(number):
        first = moment = Moment(None, number % DEEDS)
        for n in range(LIFE - 1):
            moment = Moment(moment, (number + n) % DEEDS)
        return first

    def deeds(self):
        while True:
            for moment in self.first:
                kept = []
                while moment.after:
                    kept.append(moment.deed)
                    moment = moment.after[0]
                yield kept


class Cleaner:
    """Called after each step of an optimizer; acts now and then."""

    def __init__(self, every):
        self.every, self.calls = every, 0

    def __call__(self, optimizer, args, kwargs):
        self.calls += 1
        if self.calls % self.every == 0:
            gc.collect()  # planted


class World(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.deed = nn.Linear(SEEN, width), nn.Embedding(DEEDS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, SEEN)

    def forward(self, seen, deeds):
        h = self.enter(seen) + self.deed(deeds)
        for layer in self.body:
            h = h + torch.tanh(layer(h))
        return seen + self.leave(h).float()


class Dreamer:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.world = World(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.world.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(rows, SEEN, device=meter.device)
        self.deeds = torch.zeros(rows, dtype=torch.long, device=meter.device)

    def dream(self, lived):
        fresh = torch.tensor(lived)
        fresh = fresh.pin_memory() if self.meter.gpu else fresh
        self.deeds[: len(fresh)].copy_(fresh, non_blocking=True)
        with self.meter.autocast():
            ahead = self.world(self.seen, self.deeds)
        loss = F.mse_loss(ahead[:-1], self.seen[1:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def sized(meter):
    """Steps between two collections and as many lives as make them last."""
    bare_s = meter.timed_s(gc.collect)
    probe = Lives(8000)
    each_s = max(1e-6, (meter.timed_s(gc.collect) - bare_s) / len(probe.first))
    del probe
    every = max(5, math.ceil(1.5 * bare_s / meter.host_s))
    wanted_s = every * meter.added_s + (meter.healthy_s if meter.gpu else 0.0)
    return every, Lives(max(200, round((wanted_s - bare_s) / each_s)))


def main():
    meter = Meter(__doc__)
    dreamer, lives = Dreamer(meter), Lives(200)
    deeds = lives.deeds()
    meter.calibrate(lambda: dreamer.dream(next(deeds)))
    if meter.dose:
        every, lives = sized(meter)
        deeds = lives.deeds()
        if meter.sick:
            dreamer.optimizer.register_step_post_hook(Cleaner(every))
    while meter.going_on():
        dreamer.dream(next(deeds))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
