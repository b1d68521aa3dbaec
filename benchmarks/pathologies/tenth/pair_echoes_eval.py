"""Two faults: films of beating hearts are copied from NumPy's memory, and the net is evaluated very often.

Each takes three quarters of a dose. A perfect diagnosis names both: large blocking copies from pageable
memory (first marked line), and evaluations much too often (second). Fix: pinned films, copied ahead on
another stream, and an evaluation every two thousand steps.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, PIXELS, RARELY = 0.75, 256, 2000


class Films:
    """Frames in patches, as arrays."""

    def __init__(self, patches):
        self.films = [np.full((patches, PIXELS), 0.2 + 0.3 * n, np.float32) for n in range(2)]
        self.number = 0

    def next(self):
        self.number += 1
        return self.films[self.number % 2]


class Copied:
    def __init__(self, films, device):
        self.films, self.device = films, device

    def next(self):
        return torch.as_tensor(self.films.next(), device=self.device)  # planted


class CopiedAhead:
    def __init__(self, films, device):
        self.device, self.side = device, torch.cuda.Stream()
        films.films = [torch.from_numpy(film).pin_memory() for film in films.films]
        self.films = films
        self.send()

    def send(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.coming = self.films.next().to(self.device, non_blocking=True)

    def next(self):
        here = torch.cuda.current_stream()
        here.wait_stream(self.side)
        film = self.coming
        film.record_stream(here)
        self.send()
        return film


class HeartNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.volume = nn.Linear(PIXELS, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, patches):
        h = self.enter(patches)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.volume(h)[:, 0].float()


class Study:
    def __init__(self, meter):
        self.meter, self.learned = meter, meter.pick(8192, 64)
        self.net = HeartNet(*meter.pick((4096, 5), (96, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.held_out = torch.rand(4 * self.learned, PIXELS, device=meter.device)

    def step(self, film):
        patches = film[torch.randint(len(film), (self.learned,), device=film.device)]
        with self.meter.autocast():
            volume = self.net(patches)
        loss = F.l1_loss(volume, patches.mean(1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        off = torch.zeros((), device=self.meter.device)
        for patches in self.held_out.split(self.learned):
            with self.meter.autocast():
                volume = self.net(patches)  # planted
            off += (volume - patches.mean(1)).square().sum()
        self.net.train()
        return (off / len(self.held_out)).sqrt().item()


def main():
    meter = Meter(__doc__)
    study, every = Study(meter), RARELY
    patches = study.learned
    here = torch.from_numpy(Films(patches).next()).to(meter.device)
    meter.calibrate(lambda: study.step(here))
    part_s = PART * meter.added_s
    if meter.dose:
        probe = torch.from_numpy(Films(8 * patches).next())
        once_s = meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5)
        patches = max(patches, round(8 * patches * part_s / once_s))
    if meter.sick:
        every = max(1, round(meter.timed_s(study.evaluate) / part_s))
    ahead = meter.gpu and not meter.sick
    source = (CopiedAhead if ahead else Copied)(Films(patches), meter.device)
    while meter.going_on():
        study.step(source.next())
        meter.ticked()
        if meter.ticks % every == 0:
            study.evaluate()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
