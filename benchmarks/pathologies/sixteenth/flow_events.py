"""How are particles spread that a detector sees? A normalising flow, compiled; events differ in their number.

Of each recording all events are taken, whose number is another one, and the compiled flow is made for
shapes. How long one recording is learnt from is the dose. A perfect diagnosis: it is compiled again and
again (any line marked below). Fix: events are filled up to a common number, and a mask says which count.
"""

import random

import torch
import torch._dynamo
from stopwatch import Meter
from torch import nn

VALUES, FEWEST, MOST = 8, 420, 540
# Nobody should have to wait for a compiler of C++.
BACKEND = "aot_eager"


class Coupling(nn.Module):
    def __init__(self, swapped, size=224):
        super().__init__()
        self.swapped, half = swapped, VALUES // 2
        self.net = nn.Sequential(
            nn.Linear(half, size), nn.SiLU(), nn.Linear(size, size), nn.SiLU(), nn.Linear(size, 2 * half)
        )

    def forward(self, x):
        kept, changed = x.flip(1).chunk(2, 1) if self.swapped else x.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        scale = scale.tanh()
        return torch.cat([kept, changed * scale.exp() + shift], 1), scale.sum(1)


class EventFlow(nn.Module):
    def __init__(self, couplings=2):
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(bool(number % 2)) for number in range(couplings))

    def forward(self, events, counts):
        grown = 0
        for coupling in self.couplings:
            events, part = coupling(events)
            grown = grown + part
        each = 0.5 * events.square().sum(1) - grown
        return (each * counts).sum() / counts.sum()  # planted


class Recordings:
    """Each stays for so many steps; the next has another number of events."""

    def __init__(self, stay, device, filled):
        self.stay, self.device, self.filled, self.step = stay, device, filled, 0
        self.numbers = random.Random(5).sample(range(FEWEST, MOST), MOST - FEWEST)
        self.now = None

    def load(self, number):
        events = torch.randn(number, VALUES, device=self.device)
        counts = torch.ones(number, device=self.device)
        if self.filled:
            missing = MOST - number
            events, counts = (
                nn.functional.pad(events, (0, 0, 0, missing)),
                nn.functional.pad(counts, (0, missing)),
            )
        return events, counts

    def next(self):
        if self.step % self.stay == 0:
            self.now = self.load(self.numbers[self.step // self.stay % len(self.numbers)])  # planted
        self.step += 1
        events, counts = self.now
        return events + 0.01 * torch.randn_like(events), counts


class Fit:
    def __init__(self, device):
        self.flow = EventFlow().to(device)
        self.compiled = torch.compile(self.flow, backend=BACKEND, dynamic=False)
        self.optimizer = torch.optim.Adam(self.flow.parameters(), lr=3e-4)

    def __call__(self, events, counts):
        loss = self.compiled(events, counts)  # planted
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.flow.parameters(), 5.0)
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    torch._dynamo.config.recompile_limit = 2000
    torch._dynamo.config.accumulated_recompile_limit = 20_000
    fit = Fit(meter.device)
    filled = Recordings(40, meter.device, True)
    meter.calibrate(lambda: fit(*filled.next()))
    stay = 40
    if meter.sick:
        other, sizes = Recordings(1, meter.device, False), iter(range(300, 399))
        other_s = meter.timed_s(lambda: fit(*other.load(next(sizes))), calls=8) - meter.healthy_s
        stay = max(1, round(other_s / meter.added_s))
    recordings = Recordings(stay, meter.device, not meter.sick)
    # It has been compiled once, and the first recording is half over.
    fit(*recordings.next())
    recordings.step = max(1, stay // 2)
    while meter.going_on():
        fit(*recordings.next())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
