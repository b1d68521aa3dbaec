"""Two faults: handwriting is drawn and bent by the training process, which also collects garbage by hand.

Each takes three quarters of a dose. A perfect diagnosis names both: a loader without workers (first marked
line) and pauses of the garbage collector (second). Fix: six workers, no collection.
"""

import gc

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, SYMBOLS = 0.75, 62


class Handwriting(Dataset):
    """A symbol is some strokes; bending it is the costly part."""

    def __init__(self, side, bends):
        self.side, self.bends = side, bends

    def __len__(self):
        return 400_000

    def __getitem__(self, index):
        rng, symbol = np.random.default_rng(index), index % SYMBOLS
        page = Image.new("L", (self.side, self.side))
        corners = np.random.default_rng(symbol).integers(2, self.side - 2, (5, 2))
        ImageDraw.Draw(page).line([tuple(map(int, corner)) for corner in corners], fill=255, width=2)
        for angle in rng.uniform(-5, 5, self.bends):
            page = page.rotate(float(angle), Image.Resampling.BICUBIC)
        return np.array(page)[None], symbol


class Reader(nn.Module):
    def __init__(self, side, dim, depth):
        super().__init__()
        self.patches = nn.Conv2d(1, dim, 4, stride=4)
        layer = nn.TransformerEncoderLayer(dim, max(2, dim // 64), 4 * dim, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.symbol = nn.Linear(dim, SYMBOLS)

    def forward(self, pages):
        return self.symbol(self.encoder(self.patches(pages).flatten(2).transpose(1, 2)).mean(1))


def bend_s(meter, side):
    plain, bent = Handwriting(side, 0), Handwriting(side, 20)
    plain_s = meter.timed_s(lambda: plain[5], calls=20)
    return plain_s, (meter.timed_s(lambda: bent[5], calls=20) - plain_s) / 20


def main():
    meter = Meter(__doc__)
    side, batch = meter.pick((64, 48), (32, 8))
    net = Reader(side, *meter.pick((1024, 4), (64, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=meter.gpu)

    def learn(pages, symbols):
        pages = pages.to(meter.device, non_blocking=True).float() / 255
        symbols = symbols.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(net(pages), symbols)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    white = torch.zeros(batch, 1, side, side, dtype=torch.uint8)
    blank = blanks(meter, white, torch.zeros(batch, dtype=torch.long))
    healthy_s = meter.calibrate(lambda: learn(*blank))
    part_s = PART * meter.added_s
    plain_s, each_s = bend_s(meter, side)
    load_s = (healthy_s if meter.gpu else 0.0) + part_s if meter.dose else 0.0
    loader = DataLoader(
        Handwriting(side, max(0, round((load_s / batch - plain_s) / each_s))),
        batch_size=batch,
        num_workers=0 if meter.sick else meter.pick(6, 1),  # planted
        pin_memory=meter.gpu,
    )
    collect_every = max(1, round(meter.timed_s(gc.collect) / part_s)) if meter.sick else 0
    pages = iter(loader)
    learn(*next(pages))
    while meter.going_on():
        learn(*next(pages))
        meter.ticked()
        if collect_every and meter.ticks % collect_every == 0:
            gc.collect()  # planted
    meter.report(excess=True)


if __name__ == "__main__":
    main()
