"""Two faults: whole body scans are sent from ordinary memory, and the best model so far is written often.

Each takes three quarters of a dose. A perfect diagnosis names both: large blocking copies from pageable
memory (first marked line), and checkpoints much too often (second). Fix: pinned scans, sent ahead on another
stream; no checkpoint before the end. Needs a GPU.
"""

import itertools
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, VOXELS, ORGANS = 0.75, 64, 6


class Scans:
    """A few scans in turn, as rows of small cubes."""

    def __init__(self, meter, cubes, ahead):
        self.device, self.ahead, self.ready = meter.device, ahead, None
        scans = [torch.full((cubes, VOXELS), 0.3 * n) for n in range(3)]
        self.scans = itertools.cycle([scan.pin_memory() for scan in scans] if ahead else scans)
        self.side = torch.cuda.Stream() if ahead else None

    def send(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            return next(self.scans).to(self.device, non_blocking=True)

    def next(self):
        if not self.ahead:
            return next(self.scans).to(self.device)  # planted
        scan = self.send() if self.ready is None else self.ready
        torch.cuda.current_stream().wait_stream(self.side)
        scan.record_stream(torch.cuda.current_stream())
        self.ready = self.send()
        return scan


class OrganNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.organ = nn.Linear(VOXELS, width), nn.Linear(width, ORGANS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, cubes):
        h = self.enter(cubes)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.organ(h).float()


class Segmentation:
    def __init__(self, meter, folder):
        self.meter, self.folder, self.rows = meter, folder, meter.pick(32_768, 64)
        self.net = OrganNet(*meter.pick((2048, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.organs = torch.randint(ORGANS, (self.rows,), device=meter.device)

    def step(self, scan):
        cubes = scan[torch.randint(len(scan), (self.rows,), device=self.meter.device)]
        with self.meter.autocast():
            loss = F.cross_entropy(self.net(cubes), self.organs)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def write(self):
        torch.save(self.net.state_dict(), self.folder / "best.pt")  # planted


def main():
    meter = Meter(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        training = Segmentation(meter, Path(folder))
        here = torch.rand(training.rows, VOXELS, device=meter.device)
        meter.calibrate(lambda: training.step(here))
        part_s, cubes, every = PART * meter.added_s, training.rows, 100_000
        if meter.dose:
            probe = torch.zeros(8 * training.rows, VOXELS)
            once_s = meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5)
            cubes = max(cubes, round(len(probe) * part_s / once_s))
        if meter.sick:
            every = max(1, round(meter.timed_s(training.write, calls=3) / part_s))
        scans = Scans(meter, cubes, ahead=meter.gpu and not meter.sick)
        while meter.going_on():
            training.step(scans.next())
            meter.ticked()
            if meter.ticks % every == 0:
                training.write()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
