"""Healthy control: a detector of knots in wood, with a progress line that shows the loss of every step.

Tempting: a number is read from the GPU in each step; but it is the loss of some steps before, which was
copied to pinned memory behind the training's back and has been there for long. A perfect diagnosis: healthy,
nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ANCHORS, LATE = 6, 6


class LateLosses:
    """A ring of numbers on their way to the host."""

    def __init__(self, gpu):
        self.gpu, self.ring = gpu, torch.zeros(LATE, pin_memory=gpu)
        self.came, self.step, self.shown = [None] * LATE, 0, 0.0

    def note(self, loss):
        at = self.step % LATE
        if self.came[at] is not None:
            self.came[at].synchronize()
            self.shown = 0.9 * self.shown + 0.1 * float(self.ring[at])
        self.ring[at].copy_(loss.detach(), non_blocking=True)
        if self.gpu:
            self.came[at] = torch.cuda.Event()
            self.came[at].record()
        self.step += 1


class Detector(nn.Module):
    """Boxes and how sure it is, of each anchor of each place."""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 8, stride=8)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.boxes, self.sure = nn.Conv2d(width, 4 * ANCHORS, 1), nn.Conv2d(width, ANCHORS, 1)

    def forward(self, boards):
        h = self.stem(boards)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.boxes(h).float(), self.sure(h).float()


class Sawmill:
    def __init__(self, meter):
        self.meter, (batch, side) = meter, meter.pick((64, 256), (3, 64))
        net = Detector(*meter.pick((384, 7), (40, 4)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-4, momentum=0.9, fused=meter.gpu)
        boards = torch.rand(batch, 3, side, side, device=meter.device)
        self.boards = boards.contiguous(memory_format=torch.channels_last)
        self.knots = (torch.rand(batch, ANCHORS, side // 8, side // 8, device=meter.device) < 0.1).float()
        self.losses = LateLosses(meter.gpu)

    def step(self):
        with self.meter.autocast():
            boxes, sure = self.net(self.boards)
        of_knots = boxes.unflatten(1, (ANCHORS, 4)) * self.knots[:, :, None]
        loss = F.binary_cross_entropy_with_logits(sure, self.knots) + of_knots.abs().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.losses.note(loss)


def main():
    meter = Meter(__doc__)
    sawmill = Sawmill(meter)
    meter.calibrate(sawmill.step)
    while meter.going_on():
        sawmill.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
