"""Two faults: a detector matches its boxes to the truth on the CPU, and is evaluated every few steps.

Each takes three quarters of a dose. A perfect diagnosis names both: the matcher, a part of the model that
computes on the CPU (first marked line), and evaluations much too often (second). Fix: the matcher on the
GPU, an evaluation every thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, THINGS, SHOTS = 0.75, 10, 8


class Matcher(nn.Module):
    """The anchor that overlaps most, for each true box."""

    def __init__(self, anchors, device="cpu"):
        super().__init__()
        corner = torch.rand(anchors, 2, device=device)
        self.register_buffer("anchors", torch.cat([corner, corner + 0.1], 1))

    @torch.no_grad()
    def forward(self, boxes):
        low = torch.maximum(self.anchors[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(self.anchors[:, None, 2:], boxes[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        return shared.max(0).values


class Detector(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.boxes, self.thing = nn.Linear(width, 4), nn.Linear(width, THINGS)

    def forward(self, images):
        h = self.stem(images)
        for conv in self.body:
            h = h + F.relu(conv(h))
        h = h.mean((2, 3))
        return self.boxes(h).float().sigmoid(), self.thing(h).float()


class Training:
    def __init__(self, meter):
        self.meter, (batch, side, width, depth) = meter, meter.pick((32, 256, 192, 9), (2, 32, 8, 1))
        self.model = Detector(width, depth).to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-4, momentum=0.9, foreach=True)
        images = torch.rand(batch, 3, side, side, device=meter.device)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.truth = torch.rand(batch, 4, device=meter.device)
        self.things = torch.randint(THINGS, (batch,), device=meter.device)
        self.matcher = Matcher(64, meter.device)

    def step(self):
        with self.meter.autocast():
            boxes, scores = self.model(self.images)
        there = self.matcher.anchors.device
        overlap = self.matcher(boxes.detach().to(there)).to(self.meter.device)  # planted
        miss = F.smooth_l1_loss(boxes, self.truth, reduction="none").mean(1)
        loss = ((1 + overlap) * miss).mean() + F.cross_entropy(scores, self.things)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        right = torch.zeros((), device=self.meter.device)
        for _ in range(SHOTS):
            with self.meter.autocast():
                _, scores = self.model(self.images)
            right += (scores.argmax(1) == self.things).float().mean()
        self.model.train()
        return right.item() / SHOTS


def anchors_taking(meter, wanted_s, boxes):
    few, many = Matcher(1000), Matcher(9000)
    times = [meter.timed_s(lambda m=matcher: m(boxes), calls=5) for matcher in (few, many)]
    return max(64, round(wanted_s * 8000 / max(1e-9, times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    meter.calibrate(training.step)
    part_s, every, scores = PART * meter.added_s, 1000, []
    if meter.dose:
        anchors = anchors_taking(meter, part_s, training.truth.cpu())
        training.matcher = Matcher(anchors, meter.device if meter.fixed else "cpu")
    if meter.sick:
        every = max(1, round(meter.timed_s(training.evaluate) / part_s))
    while meter.going_on():
        training.step()
        meter.ticked()
        if meter.ticks % every == 0:
            scores.append(training.evaluate())  # planted
    meter.report(excess=True)


if __name__ == "__main__":
    main()
