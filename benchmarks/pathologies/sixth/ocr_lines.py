"""Reading of printed lines: an endless pipeline of generators draws them with Pillow, and batches itself.

How often a line goes through the copier is the dose. A perfect diagnosis: the lines are drawn by the training
process itself, since the loader around the pipeline has no workers (marked below). Fix: workers.
"""

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

LETTERS = "abcdefghijklmnopqrstuvwxyz "
HIGH, TEXT = 16, 8


def texts(rng):
    while True:
        yield rng.integers(1, len(LETTERS), TEXT)


def drawn(source, wide):
    for text in source:
        page = Image.new("L", (wide, HIGH), 255)
        ImageDraw.Draw(page).text((2, 2), "".join(LETTERS[n] for n in text), fill=0)
        yield page, text


def copied(source, copies, rng):
    """A bad copier turns the page a little, and loses contrast."""
    for page, text in source:
        for _ in range(copies):
            page = page.rotate(float(rng.normal(0, 0.3)), Image.Resampling.BILINEAR, fillcolor=255)
            page = page.point(lambda grey: int(8 + 0.95 * grey))
        yield np.asarray(page, np.float32)[None] / 255, text


def batched(source, size):
    while True:
        pages, text = zip(*(next(source) for _ in range(size)), strict=True)
        yield torch.from_numpy(np.stack(pages)), torch.from_numpy(np.stack(text))


class Lines(IterableDataset):
    def __init__(self, wide, size, copies):
        self.wide, self.size, self.copies = wide, size, copies

    def __iter__(self):
        worker = get_worker_info()
        rng = np.random.default_rng(worker.id if worker else 0)
        yield from batched(copied(drawn(texts(rng), self.wide), self.copies, rng), self.size)


class Reader(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.letter = nn.Linear(width, len(LETTERS))

    def forward(self, pages):
        h = self.enter(pages)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.letter(h.mean(2).permute(2, 0, 1)).float().log_softmax(-1)


def copy_s(meter, wide, size):
    """Seconds of a batch that was not copied, and of one copy more."""
    times = []
    for copies in (0, 6):
        pages = iter(Lines(wide, size, copies))
        times.append(meter.timed_s(lambda p=pages: next(p), calls=6))
    return times[0], max(1e-6, (times[1] - times[0]) / 6)


def main():
    meter = Meter(__doc__)
    size, wide = meter.pick((64, 256), (4, 64))
    net = Reader(*meter.pick((256, 6), (64, 10))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 3e-4, fused=meter.gpu)
    lengths = torch.full((size,), wide // 2), torch.full((size,), TEXT)

    def read(pages, text):
        pages, text = (t.to(meter.device, non_blocking=True) for t in (pages, text))
        with meter.autocast():
            likely = net(pages)
        loss = F.ctc_loss(likely, text, *lengths, zero_infinity=True)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.rand(size, 1, HIGH, wide), torch.ones(size, TEXT, dtype=torch.long))
    meter.calibrate(lambda: read(*blank))
    bare_s, each_s = copy_s(meter, wide, size)
    copies = max(0, round((meter.host_s - bare_s) / each_s))
    workers = 0 if meter.sick else meter.pick(12, 1)
    lines = DataLoader(Lines(wide, size, copies), None, num_workers=workers, pin_memory=meter.gpu)  # planted
    pages = iter(lines)
    read(*next(pages))
    while meter.going_on():
        with meter.injecting():
            batch = next(pages)
        read(*batch)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
