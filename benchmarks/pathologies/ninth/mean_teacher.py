"""Segmentation with few labels: a mean teacher marks what has none, one line above the autocast block.

How many patches it marks is the dose. A perfect diagnosis: large products in fp32, without tensor cores (any
of the lines marked below). Fix: the teacher inside the block, like the pupil.
"""

import copy

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PIXELS, CLASSES, MOST = 192, 20, 8192


class PatchNet(nn.Module):
    """Patches of a picture as rows; what is in them."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(PIXELS, width), nn.Linear(width, CLASSES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, patches):
        h = self.enter(patches)
        for layer in self.body:
            h = h + F.relu(layer(h))  # planted
        return self.leave(h).float()


class MeanTeacher:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(MOST, 64)
        self.pupil = PatchNet(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.teacher = copy.deepcopy(self.pupil).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.pupil.parameters(), 1e-5, fused=meter.gpu)
        self.patches = torch.rand(self.rows, PIXELS, device=meter.device)
        self.labels = torch.randint(CLASSES, (self.rows,), device=meter.device)
        self.marked = 64

    @torch.no_grad()
    def follow(self):
        torch._foreach_lerp_(list(self.teacher.parameters()), list(self.pupil.parameters()), 0.01)

    @torch.no_grad()
    def mark(self):
        return self.teacher(self.patches[: self.marked]).softmax(1)

    def step(self, above):
        wanted = self.mark() if above else None  # planted
        with self.meter.autocast():
            if wanted is None:
                wanted = self.mark()
            scores = self.pupil(self.patches)
        same = F.cross_entropy(scores[: self.marked], wanted)
        loss = F.cross_entropy(scores, self.labels) + 0.1 * same
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.follow()


def patch_s(run):
    """One patch more for a teacher outside the block."""
    few, many = run.meter.pick((1024, 4096), (16, 64))
    run.marked = few
    few_s = run.meter.timed_s(run.mark, calls=5)
    run.marked = many
    return max(1e-8, (run.meter.timed_s(run.mark, calls=5) - few_s) / (many - few))


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    run = MeanTeacher(meter)
    meter.calibrate(lambda: run.step(above=False))
    if meter.dose:
        wanted = round(meter.added_s / patch_s(run))
        run.marked = min(run.rows, max(8, wanted // 128 * 128 if meter.gpu else wanted))
    while meter.going_on():
        run.step(above=meter.sick)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
