"""Healthy control: digits on clay tablets, told apart by a small convolution; pictures are flipped and moved.

Tempting: `num_workers=0`, and changes of pictures in the training thread; but a batch is one lookup, and
changed as a whole. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing;
there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, DIGITS, BATCH, TABLETS = 28, 10, 48, 6000


class Tablets(Dataset):
    def __init__(self):
        self.pictures = torch.randint(0, 255, (TABLETS, 1, SIDE, SIDE), dtype=torch.uint8)
        self.digits = torch.randint(DIGITS, (TABLETS,))

    def __len__(self):
        return TABLETS

    def __getitems__(self, rows):
        rows = torch.tensor(rows)
        return self.pictures[rows], self.digits[rows]


def changed(pictures):
    """All flipped or none, and moved by the same."""
    if torch.rand(()) < 0.5:
        pictures = pictures.flip(3)
    down, right = torch.randint(-2, 3, (2,)).tolist()
    return pictures.roll((down, right), (2, 3)).float() / 255


class TabletNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, width, 5, 2, 2), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, 2 * width, 3, 1, 1), nn.BatchNorm2d(2 * width)
        self.drop, self.out = nn.Dropout(0.25), nn.Linear(2 * width * 49, DIGITS)

    def forward(self, pictures):
        h = F.relu(self.norm1(self.conv1(pictures)))
        h = F.max_pool2d(F.relu(self.norm2(self.conv2(h))), 2)
        return self.out(self.drop(h.flatten(1)))


def train(meter, net, optimizer, pictures, digits):
    logits = net(changed(pictures).to(meter.device))
    loss = F.cross_entropy(logits, digits.to(meter.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    meter, tablets = Meter(__doc__), Tablets()
    net = TabletNet().to(meter.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(tablets, BATCH, shuffle=True, collate_fn=lambda batch: batch)
    meter.calibrate(lambda: train(meter, net, optimizer, *tablets.__getitems__(range(BATCH))))
    batches = iter(loader)
    while meter.going_on():
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            continue
        train(meter, net, optimizer, *batch)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
