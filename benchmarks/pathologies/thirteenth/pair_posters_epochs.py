"""Two faults: an epoch of posters is short and has workers of its own, and a frozen teacher is kept in fp32.

Each takes three quarters of a dose. A perfect diagnosis names both: worker processes are started anew for
each epoch (first or last marked line), and large products without tensor cores, of a teacher that a hook
asks outside autocast (second). Fix: workers that stay, and the teacher inside autocast.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

MARKS, SAID, PART = 96, 64, 0.75


class Posters(Dataset):
    """So many batches of an epoch; an item is a lot of posters."""

    def __init__(self, lots, rows):
        self.marks = np.random.default_rng(0).random((8, rows, MARKS), dtype=np.float32)
        self.lots = lots

    def __len__(self):
        return self.lots

    def __getitem__(self, index):
        return self.marks[index % 8]


def net(width, depth):
    layers = [nn.Linear(MARKS, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, SAID))


class Teacher(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = net(width, depth)

    def forward(self, posters):
        return self.layers(posters).softmax(1)  # planted


class Distillation:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 48)
        self.student = net(*meter.pick((4096, 5), (192, 4))).to(meter.device)
        self.teacher = Teacher(*meter.pick((2048, 2), (32, 1))).to(meter.device).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), 1e-5, fused=meter.gpu)
        self.quickly, self.taught = True, 64
        self.options = {"batch_size": None, "num_workers": meter.pick(6, 1), "pin_memory": meter.gpu}

    @torch.no_grad()
    def on_batch_start(self, posters):
        """Some posters are shown again if more are to be taught than there are."""
        again = posters.repeat(-(-self.taught // len(posters)), 1)[: self.taught]
        with torch.autocast(posters.device.type, torch.bfloat16, self.quickly and self.meter.gpu):
            return self.teacher(again)[: len(posters)].float()

    def step(self, posters):
        posters = posters.to(self.meter.device, non_blocking=True)
        taught = self.on_batch_start(posters)
        with self.meter.autocast():
            said = self.student(posters).float()
        loss = F.cross_entropy(said[: len(taught)], taught) + 1e-4 * said.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def loader(self, lots, **options):
        return DataLoader(Posters(lots, self.rows), **self.options, **options)  # planted

    def epoch(self, loader):
        losses = []
        for posters in loader:  # planted
            losses.append(self.step(posters))
            self.meter.ticked()
            if not self.meter.going_on():
                break
        return torch.stack(losses).mean().item()

    def start_s(self):
        begin_s = time.perf_counter()
        for _ in range(4):
            list(self.loader(1))
        return (time.perf_counter() - begin_s) / 4


def row_s(distillation, quickly):
    """One poster more that is taught."""
    meter, times = distillation.meter, []
    posters = torch.rand(distillation.rows, MARKS, device=meter.device)
    distillation.quickly, counts = quickly, meter.pick((1024, 8192), (16, 48))
    for distillation.taught in counts:
        times.append(meter.timed_s(lambda: distillation.on_batch_start(posters), calls=6))
    distillation.quickly, distillation.taught = True, 64
    return (times[1] - times[0]) / (counts[1] - counts[0])


def main():
    meter, lots = Meter(__doc__), 200
    torch.set_float32_matmul_precision("highest")
    distillation = Distillation(meter)
    (blank,) = blanks(meter, torch.zeros(distillation.rows, MARKS))
    meter.calibrate(lambda: distillation.step(blank))
    part_s = PART * meter.added_s
    if meter.dose:
        lots = max(2, round(distillation.start_s() / part_s))
    if meter.dose and meter.gpu:
        more_s = max(1e-8, row_s(distillation, quickly=False) - row_s(distillation, quickly=True))
        distillation.taught = max(64, round(part_s / more_s / 64) * 64)
    distillation.quickly = not meter.sick
    loader = distillation.loader(lots, persistent_workers=not meter.sick)
    while meter.going_on():
        distillation.epoch(loader)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
