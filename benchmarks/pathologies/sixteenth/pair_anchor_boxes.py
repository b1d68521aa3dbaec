"""Two faults: boxes are matched with anchors in Python, and a detector is evaluated too often.

Each takes three quarters of a dose. A perfect diagnosis names both: a hot line of Python (first marked
line), and evaluations (second). Fix: overlaps of all boxes and anchors at once, and an evaluation every
few thousand steps.
"""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

PART, SIDE, CELLS, BATCH, HELD_OUT, RARELY = 0.75, 32, 4, 10, 6, 4000
SHAPES = ((8, 8), (6, 12), (12, 6))
ANCHORS = [
    (8 * x + 4 - w / 2, 8 * y + 4 - h / 2, 8 * x + 4 + w / 2, 8 * y + 4 + h / 2)
    for y in range(CELLS)
    for x in range(CELLS)
    for w, h in SHAPES
]


def matched_by_loops(boxes):
    """For each anchor the box it overlaps most with, or none."""
    rows = []
    for picture in boxes.tolist():
        row = []
        for x0, y0, x1, y1 in ANCHORS:
            best, most = -1, 0.3
            for number, (a, b, c, d) in enumerate(picture):
                shared = max(0, min(x1, c) - max(x0, a)) * max(0, min(y1, d) - max(y0, b))  # planted
                if shared > most * ((x1 - x0) * (y1 - y0) + (c - a) * (d - b) - shared):
                    best = number
                    most = shared / ((x1 - x0) * (y1 - y0) + (c - a) * (d - b) - shared)
            row.append(best)
        rows.append(row)
    return torch.tensor(rows)


def overlaps(one, other):
    low = torch.max(one[..., :2], other[..., :2])
    high = torch.min(one[..., 2:], other[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (one, other)]
    return shared / (areas[0] + areas[1] - shared)


def matched_by_tensors(boxes):
    most, best = overlaps(torch.tensor(ANCHORS)[None, :, None], boxes[:, None]).max(2)
    return best.where(most > 0.3, -1)


class Detector(nn.Module):
    def __init__(self, width=36):
        super().__init__()
        layers, inside = [], 3
        for outside in (width, 2 * width, 2 * width):
            layers += [nn.Conv2d(inside, outside, 3, 2, 1), nn.BatchNorm2d(outside), nn.ReLU()]
            inside = outside
        layers[3:3] = [nn.Conv2d(width, width, 3, 1, 1), nn.ReLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Conv2d(inside, len(SHAPES) * 5, 1)

    def forward(self, pictures):
        out = self.head(self.body(pictures)).unflatten(1, (len(SHAPES), 5))
        out = out.permute(0, 3, 4, 1, 2).flatten(1, 3)
        return out[..., 0], out[..., 1:]


class Detection:
    def __init__(self, meter):
        self.meter, self.net = meter, Detector().to(meter.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.005, momentum=0.9)
        self.anchors = torch.tensor(ANCHORS, device=meter.device)
        self.pictures = torch.rand(12, BATCH, 3, SIDE, SIDE, device=meter.device)

    def loss(self, pictures, boxes, match):
        chance, moved = self.net(pictures)
        match = match.to(chance.device)
        found = match >= 0
        target = boxes.to(chance.device).gather(1, match.clamp(min=0)[:, :, None].expand(-1, -1, 4))
        away = F.smooth_l1_loss(moved, (target - self.anchors) / 8, reduction="none").sum(2)
        return F.binary_cross_entropy_with_logits(chance, found.float()) + (away * found).mean()

    def step(self, boxes, matched, spent=nullcontext):
        with spent():
            match = matched(boxes)
        loss = self.loss(self.pictures[self.meter.ticks % len(self.pictures)], boxes, match)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        """Those boxes stay which no surer one covers."""
        self.net.eval()
        kept = 0
        for pictures in self.pictures[:HELD_OUT]:
            chance, moved = self.net(pictures)
            order = chance.argsort(1, descending=True)[:, :12]
            boxes = (self.anchors + 8 * moved).gather(1, order[:, :, None].expand(-1, -1, 4))
            covered = overlaps(boxes[:, :, None], boxes[:, None]).triu(1).amax(1) > 0.5
            kept += int((~covered).sum())
        self.net.train()
        return kept / (HELD_OUT * BATCH)


def made_boxes(count):
    low = torch.rand(BATCH, count, 2) * (SIDE - 12)
    return torch.cat([low, low + 4 + torch.rand(BATCH, count, 2) * 8], 2)


def main():
    meter, boxes_each = Meter(__doc__), 3
    detection = Detection(meter)
    few = made_boxes(boxes_each)
    meter.calibrate(lambda: detection.step(few, matched_by_tensors))
    part_s, eval_every, matched = PART * meter.added_s, RARELY, matched_by_tensors
    if meter.dose:

        def matching(count):
            boxes = made_boxes(count)[: BATCH // 2]
            return lambda: matched_by_loops(boxes)

        boxes_each = max(1, amount_taking(meter, matching, 2, 12, part_s / 2))
    if meter.sick:
        matched = matched_by_loops
        eval_every = max(1, round(meter.timed_s(detection.evaluate, calls=5) / part_s))
    boxes = made_boxes(boxes_each)
    while meter.going_on():
        detection.step(boxes, matched, meter.injecting)
        meter.ticked()
        if meter.ticks % eval_every == 0:
            with meter.injecting():
                detection.evaluate()  # planted
    meter.report()


if __name__ == "__main__":
    main()
