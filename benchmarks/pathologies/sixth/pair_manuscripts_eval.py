"""Two faults: manuscripts lie in a zip archive on a slow mount, and the held-out ones are read often.

Each takes three quarters of a dose. A perfect diagnosis names both: workers that wait for storage (first
marked line), and evaluations much too often (second). Fix: the archive on the local disk, an evaluation every
two thousand steps.
"""

import io
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, PAGES, HANDS = 0.75, 24, 7


class SlowMount(io.FileIO):
    """A file whose reads are answered late."""

    late_s = 0.0

    def readinto(self, buffer):
        time.sleep(self.late_s)  # planted
        return super().readinto(buffer)


class Pages(Dataset):
    """Each worker opens the archive for itself."""

    def __init__(self, path, side, late_s):
        self.path, self.side, self.late_s, self.archive = path, side, late_s, None

    def __len__(self):
        return 400_000

    def __getitem__(self, index):
        if self.archive is None:
            raw = SlowMount(self.path)
            raw.late_s = self.late_s
            self.archive = zipfile.ZipFile(io.BufferedReader(raw, 4 * self.side * self.side))
        page = np.frombuffer(self.archive.read(f"{index % PAGES}.f32"), np.float32)
        return page.reshape(1, self.side, self.side).copy(), index % HANDS


def write(path, side):
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive:
        for n in range(PAGES):
            archive.writestr(f"{n}.f32", rng.random((side, side), dtype=np.float32).tobytes())


class Scribe(nn.Module):
    """Whose hand wrote it?"""

    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.norm, self.hand = nn.BatchNorm2d(width), nn.Linear(width, HANDS)

    def forward(self, pages):
        h = self.stem(pages)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.hand(self.norm(h).amax((2, 3))).float()


def validate(meter, net, held_out, rounds=6):
    net.eval()
    with torch.no_grad(), meter.autocast():
        losses = [F.cross_entropy(net(pages), hands) for pages, hands in [held_out] * rounds]
    net.train()
    return torch.stack(losses).mean().item()


def fetch_s(meter, path, side):
    """Seconds of a page without delay, and how many reads it takes."""
    pages, late_s = Pages(path, side, 0.0), 0.002
    plain_s = meter.timed_s(lambda: pages[3], calls=20)
    late = Pages(path, side, late_s)
    return plain_s, (meter.timed_s(lambda: late[3], calls=20) - plain_s) / late_s


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (4, 64))
    net = Scribe(*meter.pick((384, 8), (64, 10))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4, fused=meter.gpu)

    def learn(pages, hands):
        pages, hands = (t.to(meter.device, non_blocking=True) for t in (pages, hands))
        with meter.autocast():
            loss = F.cross_entropy(net(pages), hands)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.rand(batch, 1, side, side), torch.zeros(batch, dtype=torch.long))
    healthy_s = meter.calibrate(lambda: learn(*blank))
    held_out = [t.to(meter.device) for t in blank]
    part_s, every, late_s, workers = PART * meter.added_s, 2000, 0.0, meter.pick(8, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "codex.zip")
        write(path, side)
        if meter.sick:
            every = max(1, round(meter.timed_s(lambda: validate(meter, net, held_out)) / part_s))
            plain_s, reads = fetch_s(meter, path, side)
            # Pages are fetched during an evaluation too.
            wanted_s = workers * (healthy_s + 2 * part_s) / batch
            late_s = max(0.0, (wanted_s - plain_s) / reads)
        options = {"num_workers": workers, "prefetch_factor": 2, "pin_memory": meter.gpu}
        stream = iter(DataLoader(Pages(path, side, late_s), batch, **options))
        learn(*next(stream))
        while meter.going_on():
            with meter.injecting():
                pages = next(stream)
            learn(*pages)
            meter.ticked()
            if meter.ticks % every == 0:
                with meter.injecting():
                    validate(meter, net, held_out)  # planted
        meter.report(excess=meter.gpu)
        del stream


if __name__ == "__main__":
    main()
