"""Two faults: old films get scratches and grain on the GPU in many passes, and the cache is emptied often.

Each takes three quarters of a dose. A perfect diagnosis names both: a chain of elementwise kernels bound by
the GPU's memory (first marked line), and an allocator that gives memory back to ask for it again (second).
Fix: the frames that are learned are cut first, and nothing is emptied. Needs a GPU.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, CUT = 0.75, 256


class Ageing:
    """Each year in the archive leaves its mark on all frames."""

    def __init__(self, years):
        self.years = years

    def year(self, film, n):
        return film.mul(0.99).add(0.01 * (n % 3)).clamp(0.0, 1.0)  # planted

    @torch.no_grad()
    def __call__(self, film):
        for n in range(self.years):
            film = self.year(film, n)
        return film


class Restorer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(CUT, width), nn.Linear(width, CUT)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, old):
        h = self.enter(old)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return old + self.leave(h).float()


class Studio:
    def __init__(self, meter):
        self.meter, (self.rows, pieces) = meter, meter.pick((8192, 262_144), (32, 512))
        self.net = Restorer(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.film = torch.rand(pieces, CUT, device=meter.device)
        self.age = Ageing(1)

    def aged(self, cut_first):
        start = int(torch.randint(len(self.film) - self.rows, ()))
        rows = slice(start, start + self.rows)
        clean = self.film[rows]
        return clean, self.age(clean) if cut_first else self.age(self.film)[rows]

    def step(self, cut_first=True, emptied=False):
        clean, old = self.aged(cut_first)
        with self.meter.autocast():
            restored = self.net(old)
        loss = F.l1_loss(restored, clean)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if emptied:
            del restored, old, loss
            torch.cuda.empty_cache()  # planted


def main():
    meter = Meter(__doc__)
    studio = Studio(meter)
    healthy_s = meter.calibrate(studio.step)
    part_s, every = PART * meter.added_s, 0
    if meter.dose:
        year_s = meter.timed_s(lambda: studio.age(studio.film), calls=5)
        studio.age.years = max(1, round(part_s / year_s))
    if meter.sick and meter.gpu:
        fresh_s = meter.timed_s(lambda: studio.step(emptied=True), calls=6) - healthy_s
        every = max(1, round(fresh_s / part_s))
    while meter.going_on():
        studio.step(not meter.sick, emptied=bool(every) and meter.ticks % every == 0)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
