"""A navigator keeps a memory over the whole run; its graph is never cut, so backward goes to the start.

How often the memory is written is the dose: each writing stays on the GPU for good, with all that its
gradient needs, and each later step is longer by it. A perfect diagnosis: the GPU's memory grows steadily,
because a graph is kept (either of the lines marked below). Fix: the memory is detached after each step.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, TURNS = 40, 6


class Memory(nn.Module):
    """A row for each place; what is seen is mixed into what was known."""

    def __init__(self, places, dim):
        super().__init__()
        self.mix, self.places = nn.Linear(dim, dim), places
        self.known = torch.zeros(places, dim)

    def forget(self):
        self.known = torch.zeros_like(self.known, device=self.mix.weight.device)

    def write(self, seen):
        self.known = torch.tanh(self.mix(self.known) + seen)  # planted

    def cut(self):
        self.known = self.known.detach()


class Navigator(nn.Module):
    def __init__(self, places, dim, width, depth):
        super().__init__()
        self.memory = Memory(places, dim)
        self.enter, self.recall = nn.Linear(SEEN, width), nn.Linear(dim, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.notes, self.turn = nn.Linear(SEEN, dim), nn.Linear(width, TURNS)

    def forward(self, seen, write):
        if write:
            self.memory.write(self.notes(seen[: self.memory.places]))
        h = self.enter(seen) + self.recall(self.memory.known).mean(0)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.turn(h).float()


class Training:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = Navigator(*meter.pick((4096, 2048, 4096, 4), (64, 32, 64, 2))).to(meter.device)
        self.net.memory.forget()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(self.rows, SEEN, device=meter.device)
        self.turns = torch.randint(TURNS, (self.rows,), device=meter.device)

    def step(self, write, cut):
        # Also without a GPU: the weights' copies keep an older graph valid.
        with torch.autocast(self.meter.device.type, dtype=torch.bfloat16):
            scores = self.net(self.seen, write)
        loss = F.cross_entropy(scores, self.turns)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward(retain_graph=not cut)  # planted
        self.optimizer.step()
        if cut:
            self.net.memory.cut()


def kept_s(training, count=10):
    """What a writing that is kept costs each later step."""
    training.net.memory.forget()
    for _ in range(count):
        training.step(write=True, cut=False)
    long_s = training.meter.timed_s(lambda: training.step(write=False, cut=False), calls=6)
    training.net.memory.forget()
    short_s = training.meter.timed_s(lambda: training.step(write=False, cut=False), calls=6)
    return max(1e-6, (long_s - short_s) / count)


def main():
    meter = Meter(__doc__)
    training, every = Training(meter), 20
    meter.calibrate(lambda: training.step(write=True, cut=True))
    if meter.dose:
        # So many steps in all; on average half of the writings are behind it.
        steps = meter.seconds / (meter.healthy_s + meter.added_s)
        every = max(1, round(kept_s(training) * steps / (2 * meter.added_s)))
    training.net.memory.forget()
    while meter.going_on():
        training.step(write=meter.ticks % every == 0, cut=not meter.sick)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
