"""A dense detector that looks at the norm of its gradient with an `if`, to skip the steps that explode.

The `if` waits for the GPU; the anchors for the next images are then laid out in Python while it has nothing
to do. Doses 1 to 3 cost about 23, 38 and 44 %. A perfect diagnosis names the hidden wait, marked below;
`AnchorGrid.jittered` is second best. Fix: the skip is decided on the GPU, by a factor of zero.
"""

import math
import random
import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SHARES = (0.0, 0.3, 0.6, 0.8)


class AnchorGrid:
    def __init__(self, cells):
        self.cells, self.shapes = cells, 1

    def jittered(self):
        anchors = []
        for n in range(self.shapes):
            row, column = divmod(n % self.cells**2, self.cells)
            scale = math.exp(random.gauss(0, 0.1))
            anchors.append((row + random.random(), column + random.random(), scale, 1 / scale))
        return anchors


class Detector(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        stages = [nn.Conv2d(3, width, 4, stride=4)]
        for _ in range(depth):
            stages += [nn.Conv2d(width, width, 3, padding=1), nn.LeakyReLU(0.1, inplace=True)]
        self.backbone = nn.Sequential(*stages)
        self.boxes, self.scores = nn.Conv2d(width, 4, 1), nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x = self.backbone(x)
        return self.boxes(x), self.scores(x)


class Trainer:
    def __init__(self, meter):
        self.meter = meter
        self.model = Detector(*meter.pick((192, 10), (8, 2))).to(
            meter.device, memory_format=torch.channels_last
        )
        self.params = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(self.params, lr=1e-4, momentum=0.9, foreach=True)
        bs, side = meter.pick((32, 256), (4, 32))
        self.images = torch.rand(bs, 3, side, side, device=meter.device)
        self.images = self.images.to(memory_format=torch.channels_last)
        self.hit = (torch.rand(bs, 1, side // 4, side // 4, device=meter.device) < 0.05).float()
        self.skipped = 0

    def gradients(self):
        with self.meter.autocast():
            boxes, scores = self.model(self.images)
        box_loss = (F.smooth_l1_loss(boxes.float(), self.hit.expand(-1, 4, -1, -1), reduction="none")).mean()
        loss = box_loss + F.binary_cross_entropy_with_logits(scores.float(), self.hit)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        return nn.utils.clip_grad_norm_(self.params, 10.0)

    def step_looking(self):
        norm = self.gradients()
        if norm > 1e4:  # planted
            self.skipped += 1
        else:
            self.optimizer.step()

    def step(self):
        norm = self.gradients()
        fine = (norm <= 1e4).float()
        torch._foreach_mul_([p.grad for p in self.params], fine)
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    trainer, grid = Trainer(meter), AnchorGrid(64)
    meter.calibrate(trainer.step)
    grid.shapes = 2000
    per_shape_s = meter.timed_s(grid.jittered) / grid.shapes
    grid.shapes = round(SHARES[meter.dose] * meter.healthy_s / per_shape_s)
    step = trainer.step_looking if meter.sick else trainer.step
    while meter.going_on():
        step()
        begin_s = time.perf_counter()
        grid.jittered()
        if meter.sick:
            meter.injected_s += time.perf_counter() - begin_s
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
