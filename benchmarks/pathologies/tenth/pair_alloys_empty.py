"""Two faults: energies of alloys are summed up in full fp32, and a logger empties the allocator's cache.

Each takes three quarters of a dose. A perfect diagnosis names both: large products without tensor cores
(first marked line), and an allocator that gives memory back all the time (second). Fix: the readout under
autocast, like the rest, and only its last sum in fp32; a logger that reads and empties nothing. Needs a
GPU.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, ATOM, ELEMENTS = 0.75, 40, 6


class Readout(nn.Module):
    """What surrounds an atom becomes its share of the energy."""

    def __init__(self, width):
        super().__init__()
        self.surround = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.enter, self.share = nn.Linear(ATOM, width), nn.Linear(width, 1)

    def forward(self, atoms):
        h = F.silu(self.enter(atoms))
        h = F.silu(torch.mm(h, self.surround))  # planted
        return self.share(h).float().mean()


class AlloyNet(nn.Module):
    def __init__(self, width, depth, readout):
        super().__init__()
        self.enter, self.element = nn.Linear(ATOM, width), nn.Linear(width, ELEMENTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.readout = Readout(readout)

    def forward(self, atoms):
        h = self.enter(atoms)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.element(h).float()


class Training:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.net = AlloyNet(*meter.pick((4096, 5, 2048), (64, 3, 48))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.atoms = torch.randn(rows, ATOM, device=meter.device)
        self.elements = torch.randint(ELEMENTS, (rows,), device=meter.device)
        self.crystal(128)

    def crystal(self, atoms):
        self.lattice = torch.randn(atoms, ATOM, device=self.meter.device)

    def exact(self):
        with torch.autocast(self.meter.device.type, enabled=False):
            return self.net.readout(self.lattice)

    def mixed(self):
        with self.meter.autocast():
            return self.net.readout(self.lattice)

    def step(self, energy):
        with self.meter.autocast():
            scores = self.net(self.atoms)
        loss = F.cross_entropy(scores, self.elements) + 0.01 * energy().square()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class MemoryLog:
    def __init__(self, gpu):
        self.gpu, self.every, self.lines = gpu, 1_000_000, []

    def write(self):
        if self.gpu:
            torch.cuda.empty_cache()  # planted
            self.lines.append(torch.cuda.memory_allocated())

    def after(self, step):
        if step % self.every == 0:
            self.write()


def atom_s(training):
    times = []
    for count in (2048, 10240):
        training.crystal(count)
        times.append(training.meter.timed_s(lambda: training.exact().backward(), calls=5))
    return max(1e-9, (times[1] - times[0]) / 8192)


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("highest")
    training, log = Training(meter), MemoryLog(meter.gpu)
    meter.calibrate(lambda: training.step(training.mixed))
    part_s = PART * meter.added_s
    if meter.dose:
        training.crystal(max(128, round(part_s / atom_s(training))))
    energy = training.exact if meter.sick else training.mixed
    if meter.sick and meter.gpu:
        kept_s = meter.timed_s(lambda: training.step(energy), calls=6)
        fresh_s = meter.timed_s(lambda: (training.step(energy), log.write()), calls=6) - kept_s
        log.every = max(1, round(fresh_s / part_s))
    while meter.going_on():
        training.step(energy)
        meter.ticked()
        log.after(meter.ticks)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
