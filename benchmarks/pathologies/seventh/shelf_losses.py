"""A detector of products on shelves, with its loss in the manner of torchvision: picture by picture.

How many pictures are labelled is the dose. A perfect diagnosis: hundreds of tiny kernels, for which the host
cannot give orders fast enough (marked below). Fix: the boxes of all pictures in one tensor.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FEATURES, PRODUCTS, BOXES = 96, 12, 8


class Detector(nn.Module):
    """Over the features of cells; what it finds is a box and a product for each."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(FEATURES, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.box, self.product = nn.Linear(width, 4), nn.Linear(width, PRODUCTS)

    def forward(self, cells):
        h = self.enter(cells)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.box(h).float(), self.product(h).float()


class SetLoss(nn.Module):
    """How far off the boxes and products are, for each picture alone."""

    def one(self, box, product, target):
        corner, size = box.split(2, -1)
        off = (corner - target["corner"]).abs().sum(-1)
        scaled = (F.softplus(size) - target["size"]).square().sum(-1)  # planted
        wrong = F.cross_entropy(product, target["product"], reduction="none")
        return (off + scaled + wrong).mean()

    def forward(self, boxes, products, targets):
        count = BOXES * len(targets)
        pictures = zip(boxes[:count].split(BOXES), products[:count].split(BOXES), targets, strict=True)
        return torch.stack([self.one(*picture) for picture in pictures]).mean()


class JointLoss(SetLoss):
    def forward(self, boxes, products, targets):
        count = BOXES * len(targets)
        together = {name: torch.cat([target[name] for target in targets]) for name in targets[0]}
        return self.one(boxes[:count], products[:count], together)


class Shelves:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.net = Detector(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.cells = torch.randn(rows, FEATURES, device=meter.device)
        self.label(2, JointLoss())

    def label(self, pictures, loss):
        device = self.meter.device
        self.loss = loss
        self.targets = [
            {
                "corner": torch.rand(BOXES, 2, device=device),
                "size": torch.rand(BOXES, 2, device=device),
                "product": torch.randint(PRODUCTS, (BOXES,), device=device),
            }
            for _ in range(pictures)
        ]

    def detect(self):
        with self.meter.autocast():
            boxes, products = self.net(self.cells)
        loss = self.loss(boxes, products, self.targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def picture_s(shelves):
    """Host time of one picture more, forward and backward."""
    pictures = min(8, len(shelves.cells) // BOXES)
    shelves.label(pictures, SetLoss())
    boxes = torch.rand(BOXES * pictures, 4, device=shelves.meter.device, requires_grad=True)
    products = torch.rand(BOXES * pictures, PRODUCTS, device=shelves.meter.device, requires_grad=True)

    def forth_and_back():
        shelves.loss(boxes, products, shelves.targets).backward()

    return shelves.meter.timed_s(forth_and_back, calls=6) / pictures


def main():
    meter = Meter(__doc__)
    shelves = Shelves(meter)
    meter.calibrate(shelves.detect)
    if meter.dose:
        pictures = round(meter.host_s / picture_s(shelves))
        pictures = max(2, min(len(shelves.cells) // BOXES, pictures))
        shelves.label(pictures, SetLoss() if meter.sick else JointLoss())
    while meter.going_on():
        shelves.detect()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
